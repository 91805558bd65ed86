"""A real Apache Kafka broker on this host, for development, demonstrations and tests."""

from headrace_dev.broker.broker import BrokerConfig, EmbeddedBroker
from headrace_dev.broker.ivy import FetchProgress

__all__ = ["BrokerConfig", "EmbeddedBroker", "FetchProgress"]
