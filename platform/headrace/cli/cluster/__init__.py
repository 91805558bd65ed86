"""Commands that run a cluster: `cluster`, `coordinator`, `worker`."""
