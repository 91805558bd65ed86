"""`headrace dev`: the files that are watched, and a run whose rows are shown instead of written."""
