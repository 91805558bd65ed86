"""Puts clusters of headrace on systems that run processes for others."""
