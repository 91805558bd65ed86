"""The pure rules of an edge between subtasks: partitioning of rows, alignment of signals, bounds of its channels."""
