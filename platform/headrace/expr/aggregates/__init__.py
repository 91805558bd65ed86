"""The aggregate functions of the language: one file a family, and the table that names the families."""
