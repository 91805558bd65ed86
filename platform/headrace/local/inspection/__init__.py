"""Reads data without changing it and without storing positions: samples, previews, inferred schemas, published rows."""
