"""Commands on what jobs keep and write: state, transactions, dead letters, archives, audits."""
