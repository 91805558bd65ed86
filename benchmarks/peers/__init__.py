"""Headrace beside Flink and bare loops on one broker: the same jobs, the same topics, outputs checked in full.

`make bench-peers` runs it and writes the tables of docs/performance.md.
"""
