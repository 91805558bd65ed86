"""Writers of a SQL sink: rows buffered, converted and loaded, directly or staged."""
