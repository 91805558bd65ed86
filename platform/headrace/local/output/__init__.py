"""What jobs have written, looked at from this host without a coordinator."""
