"""Prepared transactions: names, rules, the committer, the admin client, audits."""
