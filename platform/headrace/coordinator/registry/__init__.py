"""The ownership of jobs in this coordinator: a pure machine, its events and its effects."""
