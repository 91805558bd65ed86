"""SQL text to typed terms: parsing by sqlglot, translation, and remedies for functions of other dialects."""
