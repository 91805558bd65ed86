"""Protobuf schemas for tests."""
