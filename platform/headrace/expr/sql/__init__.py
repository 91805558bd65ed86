"""SQL text to typed terms: parsed by sqlglot, translated; other dialects' functions with remedies."""
