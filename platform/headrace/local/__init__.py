"""Headrace on this host: the local engine, runs in slot processes, a home's session cluster, inspection, `tests:`
sections.
"""
