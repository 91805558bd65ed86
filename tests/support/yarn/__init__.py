"""A YARN cluster for tests, and applications of Headrace on it."""
