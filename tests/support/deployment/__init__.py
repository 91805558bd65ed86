"""Clusters put together as the pages of deploy/standalone say: by their commands and units, on hosts of a network."""
