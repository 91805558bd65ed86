"""A real Apache Kafka broker on this host, for development, demonstrations and tests."""

from headrace.local.broker.broker import BrokerConfig, EmbeddedBroker
from headrace.local.broker.ivy import FetchProgress

__all__ = ["BrokerConfig", "EmbeddedBroker", "FetchProgress"]
