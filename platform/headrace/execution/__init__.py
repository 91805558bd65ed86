"""The common part of every engine that runs a job: plans, origin, split assignment, connectors, manifests."""
