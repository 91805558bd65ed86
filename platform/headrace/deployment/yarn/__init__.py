"""Clusters of headrace on YARN: what is submitted, and what runs as the ApplicationMaster."""
