"""What runs in a subtask: source and sink tasks, the task loop, event time."""
