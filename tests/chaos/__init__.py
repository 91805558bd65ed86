"""Random faults on a live cluster, from a seed: the output stays exact. `make chaos SEED=1 FAULTS=30`."""
