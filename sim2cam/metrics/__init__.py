"""Numbers and their uncertainty: matching, average precision, bootstrap."""
