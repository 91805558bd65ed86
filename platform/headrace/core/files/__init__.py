"""Files that are replaced atomically, private, or named by users."""
