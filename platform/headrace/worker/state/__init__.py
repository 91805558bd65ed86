"""A slot's state: snapshots, state files, uploads, restores."""
