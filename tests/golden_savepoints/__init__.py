"""Savepoints that earlier versions wrote, one for each kind of state, and their pipelines."""
