"""How many workers a cluster has, if it makes its own. Pure: `coordinator.fleet.provisioner` performs it."""
