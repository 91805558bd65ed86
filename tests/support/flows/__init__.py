"""The pipelines of tests/flows: their input, their oracle, and the engines that run them."""
