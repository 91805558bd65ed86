"""Which attempt gets which slot, and how many workers a cluster has if it makes its own. Pure: `coordinator.fleet`
performs it."""
