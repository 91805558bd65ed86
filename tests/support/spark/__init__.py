"""Spark for tests: sessions, servers, clusters on YARN and Kubernetes, and levels without a JVM."""
