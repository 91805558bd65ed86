"""A worker whose slots run the real attempt machine over no rows, all in one process: for clusters of many jobs."""
