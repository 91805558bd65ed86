"""The cluster's ledger: every change of its jobs, as numbered records in an object store."""
