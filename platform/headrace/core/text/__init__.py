"""Texts that several packages write the same way: counts, spans of time, digests, words of other systems."""
