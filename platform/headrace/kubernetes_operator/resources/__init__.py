"""The custom resources of headrace: their names, specs and statuses. Data and its checks only."""
