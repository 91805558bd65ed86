"""Looks at data without a trace: samples, previews, inferred schemas, published rows read back."""
