"""State from values that a user supplies, for bootstrapped savepoints."""
