"""From a URL to the WebHDFS addresses of its NameNodes. Pure.

    webhdfs://HOST:PORT/path     the NameNode's HTTP address (port 9870 by default)
    swebhdfs://HOST:PORT/path    its HTTPS address (9871)
    hdfs://HOST:PORT/path        its RPC address, as in `fs.defaultFS`; its HTTP address is in Hadoop's settings
    hdfs://NAMESERVICE/path      a name service of Hadoop's settings, with one or several NameNodes
    hdfs:///path                 the file system of `fs.defaultFS`

Settings are those of core-site.xml and hdfs-site.xml. A host that they do not describe is expected to listen at the
default port of Hadoop 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import UserError

SCHEMES = frozenset({"hdfs", "webhdfs", "swebhdfs"})
_PORTS = {"http": 9870, "https": 9871}
_RPC_PORT = "8020"
_ANY_HOST = ("0.0.0.0", "[::]")
_REMEDY = "write hdfs://NAMENODE:PORT/path, hdfs://NAMESERVICE/path or webhdfs://NAMENODE:PORT/path"


@dataclass(frozen=True, slots=True)
class HdfsFolder:
    """A folder of a file system. name_nodes: base URLs of its NameNodes, at least one; path: absolute, without a
    trailing slash, empty for the root."""

    name_nodes: tuple[str, ...]
    path: str


def locate(url: str, settings: Mapping[str, str], addresses: str | None = None) -> HdfsFolder:
    """Returns the folder of a URL. Raises UserError.

    settings   Hadoop's
    addresses  base URLs of the NameNodes, divided by commas; replaces what the settings say about `hdfs://`
    """
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    if scheme == "hdfs" and not authority:
        scheme, authority = _default(url, settings)
    if not authority:
        raise UserError(f"{url} names no NameNode", remedy=_REMEDY)
    path = "/".join(part for part in path.split("/") if part)
    return HdfsFolder(_name_nodes(scheme, authority, settings, addresses), f"/{path}" if path else "")


def _name_nodes(scheme: str, authority: str, settings: Mapping[str, str], addresses: str | None) -> tuple[str, ...]:
    if scheme == "hdfs" and addresses:
        return _listed(addresses)
    tls = scheme == "swebhdfs" or (scheme == "hdfs" and settings.get("dfs.http.policy") == "HTTPS_ONLY")
    protocol = "https" if tls else "http"
    if authority in _words(settings.get("dfs.nameservices", "")):
        return tuple(_of_node(authority, suffix, settings, protocol) for suffix in _suffixes(authority, settings))
    if scheme != "hdfs":
        return (f"{protocol}://{_with_port(authority, protocol)}",)
    return (_of_node(authority, _suffix_of(authority, settings), settings, protocol),)


def _default(url: str, settings: Mapping[str, str]) -> tuple[str, str]:
    """Scheme and authority of `fs.defaultFS`."""
    default = settings.get("fs.defaultFS", "")
    scheme, _, rest = default.partition("://")
    authority = rest.partition("/")[0]
    if scheme not in SCHEMES or not authority:
        raise UserError(
            f"{url} names no NameNode, and fs.defaultFS is {default or 'not set'}",
            remedy=f"{_REMEDY}, or set HADOOP_CONF_DIR to a folder whose core-site.xml has fs.defaultFS",
        )
    return scheme, authority


def _listed(addresses: str) -> tuple[str, ...]:
    listed = tuple(each.rstrip("/") for each in _words(addresses))
    for each in listed:
        if not each.startswith(("http://", "https://")):
            raise UserError(
                f"HEADRACE_WEBHDFS has {each!r}, which is no address of a NameNode",
                remedy="write http://HOST:PORT or https://HOST:PORT, several divided by commas",
            )
    return listed


def _suffixes(service: str, settings: Mapping[str, str]) -> list[str]:
    """The suffixes of the settings' names, one for each NameNode of a name service."""
    nodes = _words(settings.get(f"dfs.ha.namenodes.{service}", ""))
    return [f".{service}.{node}" for node in nodes] or [f".{service}"]


def _suffix_of(authority: str, settings: Mapping[str, str]) -> str | None:
    """The suffix of the settings' names for the NameNode with this RPC address; None: no setting describes it."""
    name = "dfs.namenode.rpc-address"
    for key, value in settings.items():
        if key.startswith(name) and _rpc(value) == _rpc(authority):
            return key.removeprefix(name)
    default = settings.get("fs.defaultFS", "").partition("://")[2].partition("/")[0]
    return "" if default and _rpc(default) == _rpc(authority) else None


def _of_node(authority: str, suffix: str | None, settings: Mapping[str, str], protocol: str) -> str:
    """The base URL of one NameNode."""
    address = None if suffix is None else settings.get(f"dfs.namenode.{protocol}-address{suffix}")
    own_host = _rpc(settings.get(f"dfs.namenode.rpc-address{suffix}", authority)).rpartition(":")[0]
    if address is None:
        return f"{protocol}://{_with_port(own_host, protocol)}"
    host, _, port = address.rpartition(":")
    # a wildcard is an address to listen at, not one to dial
    return f"{protocol}://{own_host if host in _ANY_HOST else host}:{port}"


def _rpc(address: str) -> str:
    return address if _has_port(address) else f"{address}:{_RPC_PORT}"


def _with_port(address: str, protocol: str) -> str:
    return address if _has_port(address) else f"{address}:{_PORTS[protocol]}"


def _has_port(address: str) -> bool:
    # an IPv6 address has colons of its own, in brackets
    return ":" in address.rpartition("]")[2]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
