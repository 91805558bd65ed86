"""Commands that run a pipeline on this host, and take up earlier runs."""
