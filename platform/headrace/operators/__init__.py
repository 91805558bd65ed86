"""Operators: one file each, config half and live half.

An operator is a synchronous function on batches. It never knows which engine runs it, and it does no I/O.
"""
