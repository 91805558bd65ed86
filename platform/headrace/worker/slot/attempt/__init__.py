"""What a slot decides in its one attempt, without threads, clock and I/O: `slot_runtime` executes it."""
