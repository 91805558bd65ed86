"""Checkpoints in storage: the journal that decides what is newest, manifests, names of objects, the store."""
