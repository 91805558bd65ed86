"""Kafka's wire protocol for the requests that librdkafka does not offer: connections, login, transaction requests."""
