"""Clusters as a user has them: processes, hosts and networks of a test's own, and jobs on them."""
