"""The output of jobs, inspected from this host without a coordinator."""
