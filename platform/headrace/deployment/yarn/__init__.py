"""Clusters of headrace on YARN: their submission, and the process of the ApplicationMaster."""
