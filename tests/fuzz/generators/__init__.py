"""Generators of random input: schemas, frames, and messages whole or damaged."""
