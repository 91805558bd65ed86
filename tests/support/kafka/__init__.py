"""Real brokers: filled, read, and asked about their transactions."""
