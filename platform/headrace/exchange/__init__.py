"""The data exchange between subtasks: the pure rules of an edge (`edge`), and the bounded channels that transport
rows."""
