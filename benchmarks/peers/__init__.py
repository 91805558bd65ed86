"""Compares Headrace with Flink and bare loops on one broker: the same jobs and topics; all output rows are checked.

`make bench-peers` runs it and writes the tables of docs/performance.md.
"""
