"""The rights of a Kafka source or sink at its brokers, for `headrace doctor`."""
