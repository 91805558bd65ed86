"""Shared by all Kafka clients: settings, security, broker lists, topics."""
