"""The connection to ZooKeeper that electors and locators use: addresses, security, errors.

    zookeeper://host1:2181,host2:2181,host3/some/path

Security is passed through to kazoo by environment variables, because addresses appear in lists of processes:

    HEADRACE_ZOOKEEPER_AUTH          digest:USER:PASSWORD; objects are then accessible to this user alone
    HEADRACE_ZOOKEEPER_SASL          JSON of kazoo's sasl_options, such as {"mechanism": "GSSAPI", ..}
    HEADRACE_ZOOKEEPER_CA, .._CERT, .._KEY   PEM files: TLS to the servers
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import SequentialThreadingHandler


# kazoo waits for one server's TCP connection for the whole session timeout, and for its handshake for that time divided
# by the number of servers. A host that drops packets, or a server that does not answer a handshake while it starts,
# would cost the session although other servers are reachable. So connects have a timeout of their own.

TRIES_MIN = 3
"""How many tries the time of a session is enough for."""


def connecting_handler(connect_s: float) -> SequentialThreadingHandler:
    """kazoo's threads, with a limit of their own for each TCP connection instead of the time of the session."""
    from kazoo.handlers.threading import SequentialThreadingHandler

    handler = SequentialThreadingHandler()
    connect: Callable[..., socket.socket] = handler.create_connection

    def create_connection(*args: object, **options: object) -> socket.socket:
        return connect(*args, **{**options, "timeout": connect_s})

    handler.create_connection = create_connection
    return handler


def repeated(hosts: str) -> list[str]:
    """The hosts, named again until there are `TRIES_MIN`: kazoo divides the time of a session by their number."""
    named = hosts.split(",")
    return named * -(-TRIES_MIN // len(named))


SCHEME = "zookeeper://"
_PORT = 2181
_VARIABLE = "HEADRACE_ZOOKEEPER_"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """hosts: HOST:PORT, separated by commas; path: the cluster's, begins with a slash."""

    hosts: str
    path: str

    @staticmethod
    def parsed(url: str) -> ZooKeeperAddress:
        """The address in a URL. Raises UserError."""
        hosts, _, path = url.removeprefix(SCHEME).partition("/")
        named = [each if _has_port(each) else f"{each}:{_PORT}" for each in hosts.split(",") if each]
        if not named or not path.strip("/"):
            raise UserError(
                f"{url} is no address of an election", remedy="write zookeeper://HOST1,HOST2,HOST3/path-of-the-cluster"
            )
        return ZooKeeperAddress(",".join(named), f"/{path.strip('/')}")


def zookeeper_client(address: ZooKeeperAddress, environment: Mapping[str, str], session_ms: int) -> KazooClient:
    """A client that is not started. Raises UserError for settings that cannot work or if kazoo is missing."""
    try:
        from kazoo.client import KazooClient
        from kazoo.security import make_digest_acl
    except ImportError as error:
        raise UserError("ZooKeeper needs the package kazoo", remedy="pip install 'headrace[zookeeper]'") from error
    given = {name: environment[f"{_VARIABLE}{name}"] for name in _NAMES if environment.get(f"{_VARIABLE}{name}")}
    options: dict[str, object] = {}
    if "AUTH" in given:
        scheme, user, password = _credentials(given["AUTH"])
        options["auth_data"] = [(scheme, f"{user}:{password}")]
        options["default_acl"] = [make_digest_acl(user, password, all=True)]
    if "SASL" in given:
        options["sasl_options"] = _sasl(given["SASL"])
    if "CA" in given:
        options |= {"use_ssl": True, "ca": given["CA"], "certfile": given.get("CERT"), "keyfile": given.get("KEY")}
    hosts, session_s = repeated(address.hosts), session_ms / 1_000
    return KazooClient(hosts, timeout=session_s, handler=connecting_handler(session_s / len(hosts)), **options)


def unreachable(address: ZooKeeperAddress, error: BaseException | None = None) -> ExternalError:
    """The error for a ZooKeeper that does not answer."""
    reason = f": {error}" if error is not None and str(error) else ""
    return ExternalError(
        f"ZooKeeper at {address.hosts} does not answer{reason}",
        remedy="start it, or correct the address; HEADRACE_ZOOKEEPER_AUTH, _SASL and _CA set what it asks for",
        retry=True,
    )


_NAMES = ("AUTH", "SASL", "CA", "CERT", "KEY")


def _has_port(host: str) -> bool:
    # an IPv6 address has colons inside of its brackets
    return ":" in host.rpartition("]")[2]


def _credentials(text: str) -> tuple[str, str, str]:
    scheme, _, rest = text.partition(":")
    user, _, password = rest.partition(":")
    if scheme != "digest" or not user or not password:
        raise UserError(f"{_VARIABLE}AUTH holds no credentials", remedy="write digest:USER:PASSWORD")
    return scheme, user, password


def _sasl(text: str) -> dict[str, object]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or "mechanism" not in options:
        raise UserError(f"{_VARIABLE}SASL holds no options", remedy='write JSON, such as {"mechanism": "GSSAPI"}')
    return options
