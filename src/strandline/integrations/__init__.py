"""Strandline as the store of other libraries: one package per library, each imports only its own."""
