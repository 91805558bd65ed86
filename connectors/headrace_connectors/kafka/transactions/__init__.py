"""Prepared Kafka transactions: their names, rules about their states, the committer, the admin client, audits."""
