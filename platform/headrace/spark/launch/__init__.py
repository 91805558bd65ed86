"""From a user's request to a running driver: bounds, identity, refusals."""
