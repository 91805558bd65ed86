"""Hosts, doors and mutual proofs: what every listener of headrace shares. Opens no socket."""
