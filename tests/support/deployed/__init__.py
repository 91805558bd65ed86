"""Clusters on every target by one code: what users do there, what may happen to them, and the scenarios of both."""
