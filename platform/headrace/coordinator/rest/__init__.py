"""The REST API: routes, access checks, job documents, metrics."""
