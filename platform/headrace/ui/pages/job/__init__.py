"""The page of a job: its frame with the actions, and one module a tab."""
