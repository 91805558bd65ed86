"""What the operator decides: from a spec, a status and an observation to the next status and the next step. Pure."""
