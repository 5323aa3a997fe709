"""`strandline demo`: many clients fight for the last seats of some courses."""
