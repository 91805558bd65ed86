"""Commands on a pipeline file: make, validate, explain, preview, test it."""
