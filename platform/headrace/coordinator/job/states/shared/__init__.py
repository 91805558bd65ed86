"""The common parts of the states: their contract, base classes, and the events that all of them handle in the same
way."""
