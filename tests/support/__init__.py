"""What tests share: brokers, oracles, doubles."""
