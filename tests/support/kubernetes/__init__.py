"""Real Kubernetes clusters for tests, from binaries that are built once from Go modules: no registry, no image pull.

    recipe, go_toolchain, compiling, binaries    what is built, with which Go, how, and the cache of the result
    control_cluster                              etcd, API server, controller manager: any number, without root
    node_cluster                                 scheduler and nodes beside them, whose pods run: one, by root

`binaries` and what it imports use the standard library only: it also runs before an environment is set up.
"""
