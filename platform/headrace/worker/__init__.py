"""What runs in a slot: the source task, the task loop, sinks. Any engine's threads or processes drive it."""
