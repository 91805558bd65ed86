"""Clusters that Spark runs on: YARN, Kubernetes, Connect; sessions, submission, packaging."""
