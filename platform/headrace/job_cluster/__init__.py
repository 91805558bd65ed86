"""Attends a cluster that serves one job or one application: waits for the job, or runs the program, to the end."""
