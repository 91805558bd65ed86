"""Checks of this installation and of what a pipeline needs, for `headrace doctor`."""
