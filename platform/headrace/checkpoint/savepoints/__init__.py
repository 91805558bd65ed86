"""Savepoints and retained checkpoints: written, found, read, bootstrapped, judged against another pipeline."""
