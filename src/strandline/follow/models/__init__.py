"""Read models: projections as rows of a SQL table, kept live by a follower."""
