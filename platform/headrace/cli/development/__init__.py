"""Commands for development: the broker of this host, the demo."""
