"""From YAML text to the model: the tree with places, variables, overrides, readable errors."""
