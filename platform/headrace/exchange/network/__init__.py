"""Rows between slots of different processes: wire format, credits, handshake, TLS."""
