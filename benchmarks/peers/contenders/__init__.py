"""The contenders: Headrace, Flink, and bare loops with their Kafka clients."""
