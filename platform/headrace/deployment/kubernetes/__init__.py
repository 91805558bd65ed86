"""A cluster of headrace on Kubernetes: what is applied for it, and how it is applied and deleted."""
