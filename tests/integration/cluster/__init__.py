"""Clusters of processes that are killed, frozen, cut off from their storage, stopped and taken up again."""
