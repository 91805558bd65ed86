"""A slot's state: snapshots, files, uploads, and what a restore reads."""
