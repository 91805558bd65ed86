"""The Kafka source: the enumerator finds partitions and offsets, the reader consumes them."""
