"""What NetworkPolicies allow, as Kubernetes defines it: for tests of documents, where no network enforces them.

Peers are selected by labels of pods and namespaces; address blocks are no pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]
ALL: Document = {}


@dataclass(frozen=True, slots=True)
class PeerPod:
    """A pod with its labels, those of its namespace, and the numbers of its named ports."""

    labels: Mapping[str, str]
    namespace: str = "data"
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)


def is_allowed(policies: Iterable[Document], source: PeerPod, target: PeerPod, port: int) -> bool:
    """Whether a TCP connection may be opened: by the policies of the target's ingress, and of the source's egress."""
    return _passes(policies, "Ingress", own=target, other=source, target=target, port=port) and _passes(
        policies, "Egress", own=source, other=target, target=target, port=port
    )


def _passes(
    policies: Iterable[Document], direction: str, *, own: PeerPod, other: PeerPod, target: PeerPod, port: int
) -> bool:
    """A pod that no policy selects is open; each rule of those that select it adds to what is allowed."""
    chosen = [
        each["spec"]
        for each in policies
        if each["metadata"]["namespace"] == own.namespace
        and direction in each["spec"]["policyTypes"]
        and _selects(each["spec"]["podSelector"], own.labels)
    ]
    rules = [rule for spec in chosen for rule in spec.get(direction.lower(), [])]
    peers = "from" if direction == "Ingress" else "to"
    return not chosen or any(
        _has_peer(rule.get(peers), other, own.namespace) and _has_port(rule.get("ports"), target, port)
        for rule in rules
    )


def _has_peer(peers: Sequence[Document] | None, pod: PeerPod, home: str) -> bool:
    """home: the policy's namespace, which is meant where a peer names none."""
    return not peers or any(_is_peer(peer, pod, home) for peer in peers)


def _is_peer(peer: Document, pod: PeerPod, home: str) -> bool:
    if "ipBlock" in peer:
        return False
    namespaces = peer.get("namespaceSelector")
    near = pod.namespace == home if namespaces is None else _selects(namespaces, pod.namespace_labels)
    return near and _selects(peer.get("podSelector", ALL), pod.labels)


def _has_port(ports: Sequence[Document] | None, target: PeerPod, port: int) -> bool:
    return not ports or any(
        each.get("protocol", "TCP") == "TCP" and target.ports.get(str(each["port"]), each["port"]) == port
        for each in ports
    )


def _selects(selector: Document, labels: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}, "no expressions are understood here"
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", ALL).items())
