"""A coordinator's process: it waits to be elected, leads for a term, and gives up when another one leads."""
