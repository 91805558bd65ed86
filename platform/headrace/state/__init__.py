"""What operators remember, apart from how: named states as columnar chunks, and their form in files."""
