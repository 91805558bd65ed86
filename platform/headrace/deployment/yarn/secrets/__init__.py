"""Tokens and certificates of a cluster on YARN, which are replaced while it runs."""
