"""Checkpoints in storage: the journal that decides which one is newest, manifests, names of objects, the store."""
