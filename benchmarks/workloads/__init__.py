"""What the Kafka benchmarks run: their data, good and broken, its feed, and their pipelines."""
