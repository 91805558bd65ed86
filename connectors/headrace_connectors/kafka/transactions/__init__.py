"""Transactions after they are prepared: names, rules, the committer, the admin client, audits."""
