"""What jobs have written: open transactions, audits, dead letters, looked at from the coordinator."""
