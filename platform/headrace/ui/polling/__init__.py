"""Requests to the coordinator on behalf of all open pages, and the samples that their plots show."""
