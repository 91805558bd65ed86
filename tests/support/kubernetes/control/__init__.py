"""A control plane without nodes: its servers, and its API as tests use it."""
