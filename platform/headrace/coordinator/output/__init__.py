"""Tools for the output of jobs: open transactions, audits, dead letters."""
