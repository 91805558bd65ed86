"""Messages to typed columns with a doubt mask: JSON and CSV."""
