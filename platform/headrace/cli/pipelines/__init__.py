"""Commands on a pipeline file: init, validate, explain, preview, test."""
