"""The clusters of Spark: YARN, Kubernetes, Connect; sessions, submission, packaging."""
