"""The pure decisions of a slot in its one attempt: no threads, no clock, no I/O. `slot.runtime` executes them."""
