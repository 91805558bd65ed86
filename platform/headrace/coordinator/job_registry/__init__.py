"""The ownership of jobs in this coordinator: a pure state machine, its events and its effects."""
