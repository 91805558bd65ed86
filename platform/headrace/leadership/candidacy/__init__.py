"""What follows from an election: for the coordinator that was elected, and for one that watches a lease. Pure."""
