"""Savepoints and retained checkpoints: written, found, read, bootstrapped, checked against another pipeline."""
