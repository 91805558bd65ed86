"""The states that end a job in this coordinator, and what they have in common."""
