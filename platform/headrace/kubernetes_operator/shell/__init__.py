"""The operator's I/O: API server, coordinators, kopf and the Lease. It decides nothing."""
