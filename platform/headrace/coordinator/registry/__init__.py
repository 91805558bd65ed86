"""Which job has an owner in this coordinator: a pure machine, its events and its effects."""
