"""The Kafka sink in a slot: records from rows, producers, the two writers."""
