"""The clusters of `sim.run` whose workers are drained: each has to end before its jobs have."""
