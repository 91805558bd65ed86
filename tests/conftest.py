"""Fixtures that tests of every kind may ask for."""

from support.broker import broker

__all__ = ["broker"]
