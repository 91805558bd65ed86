"""Commands for development: this host's broker, the demo."""
