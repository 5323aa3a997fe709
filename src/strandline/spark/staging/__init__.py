"""What executors prepare and the driver then does in order: pieces of a job's rows, as files in a folder.

A log has one writer at a time, so executors cannot write to it in parallel. They read, check and prepare in
parallel; the driver takes their pieces one after another. Only what a finished attempt of a task told the driver
counts: the files of attempts that failed, or that Spark ran twice, are never looked at.
"""
