"""Commands that run a pipeline on this host, and resume earlier runs."""
