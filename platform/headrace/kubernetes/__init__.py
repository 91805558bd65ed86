"""A typed connection to the API server of a Kubernetes cluster: requests and answers are JSON documents."""
