"""Protobuf: messages to columns by descriptors, and columns to messages."""
