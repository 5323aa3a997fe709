"""Decisions: command → query → events → projection → decision. Pure: what it needs of a store it yields as steps."""
