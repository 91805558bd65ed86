"""Real Kubernetes clusters for tests, from binaries that are built once from Go modules: no registry, no image pull.

programs     what is built, with which Go, how, and the cache of the result
control      etcd, API server, controller manager: any number of clusters, without root
nodes        scheduler and nodes beside them, whose pods run: one cluster, by root
pods         clusters of headrace and of Spark as pods there
documents    what manifests say, without a cluster
"""
