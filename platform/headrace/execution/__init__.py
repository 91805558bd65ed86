"""What every engine needs to run a job: plans, where it starts, which subtask reads what, connectors, manifests."""
