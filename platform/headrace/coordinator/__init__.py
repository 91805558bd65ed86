"""The control process: dispatcher, one job machine and driver per job, slots, connector hosts."""
