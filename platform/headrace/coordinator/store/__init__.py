"""The jobs of a cluster in its ledger: records in an object store, secrets in them encrypted."""
