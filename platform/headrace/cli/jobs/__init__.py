"""Commands on jobs of a cluster: list, status, logs, checkpoints, savepoint, stop, cancel, rescale."""
