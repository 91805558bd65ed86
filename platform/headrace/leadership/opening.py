"""Makes an elector or a locator from an address.

    file:///shared/folder             an election in a folder that all hosts mount
    zookeeper://host1,host2/path      an election in ZooKeeper
    kubernetes://namespace/name       an election by a Lease of a Kubernetes cluster
    yarn://name                       (locator only) the application of YARN of that name
    ledger+file:///shared/ledger      (locator only) the leader that is published beside a ledger

`HEADRACE_LEADER_LEASE` (10s): how long a leader may be silent before another coordinator is elected.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.core.config import parse_duration_ms
from headrace.core.errors import UserError
from headrace.leadership.elector import Elector, Locator

LEASE_VARIABLE = "HEADRACE_LEADER_LEASE"
_LEASE_MS, _LEASE_MS_MIN = 10_000, 1_000
_ELECTIONS = ("file", "zookeeper", "kubernetes", "yarn")
_PUBLISHED = "ledger+"


def is_election(address: str) -> bool:
    """Whether the address names an election, and not a coordinator."""
    return urlsplit(address).scheme in _ELECTIONS or address.startswith(_PUBLISHED)


def open_elector(url: str, environment: Mapping[str, str]) -> Elector:
    """The elector of a coordinator; not started. Raises UserError."""
    lease_ms = lease_from(environment)
    match urlsplit(url).scheme:
        case "file":
            from headrace.leadership.file_election import FileElector

            return FileElector(shared_folder(url), lease_ms)
        case "zookeeper":
            from headrace.leadership.zookeeper_client import ZooKeeperAddress
            from headrace.leadership.zookeeper_election import ZooKeeperElector

            return ZooKeeperElector(ZooKeeperAddress.parsed(url), environment, lease_ms)
        case "kubernetes":
            from headrace.leadership.kubernetes_election import KubernetesElector, LeaseAddress

            return KubernetesElector(LeaseAddress.parsed(url), environment, lease_ms)
        case _:
            raise UserError(
                f"{url} names no election",
                remedy="write file:///shared/folder, zookeeper://HOST1,HOST2,HOST3/path or kubernetes://NAMESPACE/NAME",
            )


def open_locator(url: str, environment: Mapping[str, str]) -> Locator:
    """The locator for the leader of an election. Raises UserError."""
    match urlsplit(url).scheme:
        case "file":
            from headrace.leadership.file_election import FileLocator

            return FileLocator(shared_folder(url))
        case "zookeeper":
            from headrace.leadership.zookeeper_client import ZooKeeperAddress
            from headrace.leadership.zookeeper_election import ZooKeeperLocator

            return ZooKeeperLocator(ZooKeeperAddress.parsed(url), environment, lease_from(environment))
        case "kubernetes":
            from headrace.leadership.kubernetes_election import KubernetesLocator, LeaseAddress

            return KubernetesLocator(LeaseAddress.parsed(url), environment)
        case "yarn":
            from headrace.leadership.yarn_locator import YarnAddress, YarnLocator

            return YarnLocator(YarnAddress.parsed(url), environment)
        case scheme if scheme.startswith(_PUBLISHED):
            from headrace.leadership.published_leader import PublishedLeader

            return PublishedLeader(url)
        case _:
            raise UserError(f"{url} names no election")


def lease_from(environment: Mapping[str, str]) -> int:
    """The lease that the environment sets, in ms. Raises UserError."""
    text = environment.get(LEASE_VARIABLE)
    if not text:
        return _LEASE_MS
    try:
        lease_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UserError(f"{LEASE_VARIABLE}: {error}") from error
    if lease_ms < _LEASE_MS_MIN:
        raise UserError(f"{LEASE_VARIABLE} is {text!r}", remedy="write a duration of at least 1s, such as 10s")
    return lease_ms


def shared_folder(url: str) -> Path:
    """The folder of a file:// URL. Raises UserError."""
    parts = urlsplit(url)
    folder = Path(unquote(parts.path))
    if parts.netloc not in {"", "localhost"} or not folder.is_absolute() or folder == Path("/"):
        raise UserError(f"{url} names no folder", remedy="write file:///shared/folder, with three slashes")
    return folder
