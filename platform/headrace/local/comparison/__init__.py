"""Two sets of rows compared: differences for people and for tests."""
