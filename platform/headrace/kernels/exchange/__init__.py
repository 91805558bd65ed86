"""The kernel of the exchange."""
