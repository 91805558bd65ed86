"""The REST API: routes, who may call them, job documents, metrics."""
