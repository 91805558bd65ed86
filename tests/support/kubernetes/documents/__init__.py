"""Charts and manifests, read and rendered without a cluster."""
