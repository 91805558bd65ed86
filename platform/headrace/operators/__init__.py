"""Operators, one file each. A file has a frozen, validated config, and the operator that the config's `open` returns;
only the operator has state.

An operator is a synchronous function on batches. It never knows which engine runs it, and it does no I/O.
"""
