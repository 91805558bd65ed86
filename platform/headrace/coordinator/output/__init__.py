"""The output of jobs as seen from the coordinator: open transactions, audits, dead letters."""
