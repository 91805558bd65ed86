"""What lies outside a simulated cluster: storage, brokers' transactions, the source's rows, what the sinks took."""
