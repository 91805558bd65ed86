"""Topics of any broker, looked at and filled from this host: for commands, samples and the demo."""
