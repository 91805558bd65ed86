"""The state of operators: named states as columnar chunks, and their form in files. Knows no operator."""
