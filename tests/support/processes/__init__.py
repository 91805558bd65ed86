"""Processes of tests: `headrace` commands, forked or started, and programs that a test drives."""
