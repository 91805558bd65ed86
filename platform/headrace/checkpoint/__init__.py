"""Checkpoints in storage: the journal, which decides which one is the newest, manifests, names of objects, stores."""
