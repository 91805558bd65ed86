"""A cluster of headrace on Kubernetes: its objects, and how they are applied and deleted."""
