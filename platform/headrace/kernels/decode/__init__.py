"""Decodes messages to typed columns with a doubt mask: JSON and CSV."""
