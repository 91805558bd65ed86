"""What a Kafka source or sink may do at its brokers, for `headrace doctor`."""
