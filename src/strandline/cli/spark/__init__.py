"""`strandline spark`: the jobs that read the whole log at once."""
