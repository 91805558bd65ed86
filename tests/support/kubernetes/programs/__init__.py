"""Kubernetes' programs, built from Go modules into this user's cache.

`binaries` and what it imports use the standard library only: it also runs before an environment is set up.
"""
