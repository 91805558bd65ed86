"""From a user's request to a driver that runs: bounds, identity, refusals."""
