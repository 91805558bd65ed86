"""Publishes staged rows of a decided epoch: transactions that also commit how far a share is published."""
