"""Workers that are containers of a YARN application."""
