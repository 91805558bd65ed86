"""Steps that aggregate, with windows or without: state, combiners, results, incremental state."""
