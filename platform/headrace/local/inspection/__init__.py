"""Reads data without leaving a trace: samples, previews, inferred schemas, published rows."""
