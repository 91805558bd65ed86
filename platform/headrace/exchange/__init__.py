"""What lies between subtasks: the pure split and the pure gate, and the bounded channels that carry."""
