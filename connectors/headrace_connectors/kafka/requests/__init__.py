"""Kafka's wire protocol for requests that librdkafka does not offer: connections, login, transaction requests."""
