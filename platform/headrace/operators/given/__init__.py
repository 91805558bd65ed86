"""State from values that a user gives, for bootstrapped savepoints."""
