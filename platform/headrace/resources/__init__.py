"""Where workers come from: a resource driver starts, lists and releases them, one for each system of processes."""
