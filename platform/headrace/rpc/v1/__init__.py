"""Protobuf modules that `python -m headrace.rpc.generate` writes from `schemas/headrace/rpc/v1`: never edited."""
