"""Commands on jobs of a cluster: submit, list, status, logs, savepoint, stop, cancel, rescale, upgrade."""
