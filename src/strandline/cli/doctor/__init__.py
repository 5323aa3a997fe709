"""`strandline doctor`: whether this machine is fit, and a store well."""
