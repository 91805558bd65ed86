"""Topics of any Kafka cluster, inspected and written from this host: for commands, samples and the demo."""
