"""Coordinators over one job store, simulated: the real registry, and everything around it modelled."""
