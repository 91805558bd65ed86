"""The states of a job, one file each: what they do with an event, and the transition that they return."""
