"""I/O on one job's folder in checkpoint storage: its journal, damaged checkpoints, orphaned files, claims by other
jobs."""
