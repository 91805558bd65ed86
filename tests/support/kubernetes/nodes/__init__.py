"""Nodes in namespaces of this machine: containerd, kubelet, kube-proxy, and the network between them."""
