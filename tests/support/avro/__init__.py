"""Avro messages and schemas for tests."""
