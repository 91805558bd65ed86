"""The old name of `headrace_dev.demo`, for one version."""
