"""SQL expressions: parse, type, compile to polars, split aggregates. Knows schemas, not pipelines; does no I/O."""
