"""The data exchange between subtasks: partitioning (pure), the gate (pure), and the bounded channels that transport
rows."""
