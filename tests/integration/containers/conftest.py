"""The engine is left as it was found."""

from support.containers.engine import engine

__all__ = ["engine"]
