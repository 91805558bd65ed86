"""Auditors: they watch everything that cannot be undone, and know what must never be."""
