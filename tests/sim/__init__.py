"""A cluster that fails in every way, simulated: one seed, one story. The machines and the journal in it are real."""
