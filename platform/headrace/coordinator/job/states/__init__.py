"""The states of a job, one file each: their reaction to an event, and the transition that they return."""
