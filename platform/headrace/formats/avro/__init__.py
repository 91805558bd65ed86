"""Avro: schemas, and messages of one schema to columns and back. docs/formats.md has the rules."""
