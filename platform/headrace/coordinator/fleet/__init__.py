"""The connections of workers: registers workers, grants and releases their slots, starts and ends workers. A shell:
`coordinator.provisioning` decides."""
