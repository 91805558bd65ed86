"""Settings of the three servers of a node, as the documents that they read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.certificates import Issued
from support.kubernetes.nodes.addresses import NodeAddresses
from support.kubernetes.nodes.image_archive import PAUSE_IMAGE

CNI = Path("/usr/lib/cni")
"""Network plugins, where Debian has them."""
STATUS_PERIOD = "4s"
_CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Of the node with that number, from 1. group: the path of its control group.

    folder: for all that it writes; inside: the same folder as its servers see it, which is what settings name.
    """

    number: int
    name: str
    folder: Path
    inside: Path
    group: str
    addresses: NodeAddresses

    @property
    def address(self) -> str:
        """Of its kubelet."""
        return self.addresses.node(self.number)

    @property
    def socket(self) -> Path:
        """Where its containerd listens."""
        return self.inside / "containerd.sock"

    def containerd(self) -> Path:
        """containerd's, and those of the pods' network: a bridge, without translation of addresses."""
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.inside / "pod-addresses"),
                "ranges": [[{"subnet": self.addresses.pods_of(self.number)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        (self.folder / "cni").mkdir()
        self._write_json("cni/pods.conflist", {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]})
        text = _CONTAINERD.format(folder=self.inside, socket=self.socket, pause=PAUSE_IMAGE, cni=CNI)
        return self._write("containerd.toml", text)

    def kubelet(self, authority: Path, served: Issued) -> Path:
        """The kubelet's. Nothing is evicted for a disk that is full, and no image is collected."""
        (self.folder / "resolv.conf").touch()
        return self._write_json(
            "kubelet.json",
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "address": self.address,
                "authentication": {
                    "anonymous": {"enabled": False},
                    "webhook": {"enabled": True},
                    "x509": {"clientCAFile": str(authority)},
                },
                "authorization": {"mode": "Webhook"},
                "tlsCertFile": str(served.certificate),
                "tlsPrivateKeyFile": str(served.key),
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": self.group,
                "failCgroupV1": False,
                "failSwapOn": False,
                "oomScoreAdj": 0,
                "containerRuntimeEndpoint": f"unix://{self.socket}",
                "clusterDNS": [self.addresses.name_server],
                "clusterDomain": "cluster.local",
                "resolvConf": str(self.inside / "resolv.conf"),
                "evictionHard": {"memory.available": "100Mi"},
                "imageGCHighThresholdPercent": 100,
                "podLogsDir": str(self.inside / "pod-logs"),
                "volumePluginDir": str(self.inside / "volume-plugins"),
                "nodeStatusUpdateFrequency": STATUS_PERIOD,
                "syncFrequency": "10s",
                "runtimeRequestTimeout": "1m",
            },
        )

    def proxy(self, kubeconfig: Path) -> Path:
        """kube-proxy's, which leaves the machine's table of connections as it is."""
        return self._write_json(
            "proxy.json",
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "mode": "iptables",
                # every pod's packets keep their address
                "detectLocalMode": "BridgeInterface",
                "detectLocal": {"bridgeInterface": "pods"},
                "clientConnection": {"kubeconfig": str(kubeconfig)},
                "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
                "hostnameOverride": self.name,
                "oomScoreAdj": 0,
            },
        )

    def _write_json(self, name: str, document: Mapping[str, Any]) -> Path:
        return self._write(name, json.dumps(document))

    def _write(self, name: str, text: str) -> Path:
        """Returns where the servers find it."""
        (self.folder / name).write_text(text)
        return self.inside / name
