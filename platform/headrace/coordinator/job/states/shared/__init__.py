"""What several states share: their contract and base classes, and events that mean the same in all of them."""
