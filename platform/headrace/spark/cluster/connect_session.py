"""A session of Spark Connect, `sc://host:port`: another process drives the cluster, and the client reaches it by gRPC.

Such a session has no RDDs, and its server holds the cluster's settings. Imports pyspark inside its functions.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.core.errors import UnreachableError, UserError
from headrace.spark.cluster.packaging import ARCHIVES, PY_FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT = "sc://"
_PORT = 15002
_TIMEOUT_S = 5.0


def is_connect(master: str | None) -> bool:
    """Whether a master is a Spark Connect server."""
    return master is not None and master.startswith(CONNECT)


@contextmanager
def connected(url: str, chosen: Mapping[str, str]) -> Iterator[SparkSession]:
    """A new session on that server, released at the end.

    chosen   settings of the session; its py-files and archives are uploaded

    Raises UserError if a library is missing or a setting belongs to the server; UnreachableError if no server answers.
    """
    _require_answer(url)
    spark = _opened(url)
    try:
        settings = dict(chosen)
        for name, send in _SENDERS.items():
            if paths := settings.pop(name, ""):
                send(spark, paths.split(","))
        for name, value in settings.items():
            _set(spark, name, value)
        yield spark
    finally:
        spark.stop()


def _require_answer(url: str) -> None:
    """Fails at once if no server listens: Spark's client would retry for minutes."""
    try:
        found = urlsplit(url)
        host, port = found.hostname, found.port or _PORT
    except ValueError as cause:
        raise UserError(f"{url!r} is no server of Spark Connect: {cause}", remedy=f"write sc://host:{_PORT}") from cause
    if not host:
        raise UserError(f"{url!r} names no host", remedy=f"write sc://host:{_PORT}")
    try:
        socket.create_connection((host, port), _TIMEOUT_S).close()
    except OSError as cause:
        raise UnreachableError(
            f"no Spark Connect server answers at {host}:{port}", remedy="start it, or name the right one"
        ) from cause


def _opened(url: str) -> SparkSession:
    try:
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(url).create()
    except ImportError as cause:  # pyspark raises it, too, for its own optional dependencies
        said = str(cause).partition("\n")[0]
        raise UserError(f"Spark Connect is not installed: {said}", remedy="pip install 'pyspark[connect]'") from cause


def _set(spark: SparkSession, name: str, value: str) -> None:
    from pyspark.errors import PySparkException

    try:
        spark.conf.set(name, value)
    except PySparkException as cause:
        reason = str(cause).partition("\n")[0]
        raise UserError(
            f"--conf {name}: {reason}", remedy="settings of a cluster are its server's: set it there"
        ) from cause


_SENDERS: Mapping[str, Callable[[SparkSession, list[str]], None]] = {
    PY_FILES: lambda spark, paths: spark.addArtifacts(*paths, pyfile=True),
    ARCHIVES: lambda spark, paths: spark.addArtifacts(*paths, archive=True),
}
"""Settings that name files -> how a session uploads them."""
