"""What lies in storage: checkpoints, savepoints, files, tables."""
