"""The states of a job, one file each. A state handles events and returns the transition to the next state."""
