"""Hosts, unauthenticated callers, mutual proofs and frames: shared by all that use sockets. Opens no socket."""
