"""The job machine. Pure: events in, effects out; states, epochs of an attempt, restarts, history."""
