"""What tests of the operator share: a simulated cluster for its decisions, the real process for the rest."""
