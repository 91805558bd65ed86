"""The shell of a driver: performs its machine's effects, for replays and for followed pipelines."""
