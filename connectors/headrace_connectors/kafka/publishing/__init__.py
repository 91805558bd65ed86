"""Publishes staged rows of a decided epoch: transactions that also commit the progress of a share."""
