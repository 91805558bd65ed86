"""Distributions of this environment: what one needs, and their wheels, from which another environment is installed."""
