"""What every Kafka client shares: settings, security, broker lists, topics."""
