"""The jar of Apache Ivy: pyspark's, if pyspark is installed, else one of this user's cache, fetched once.

A fetched jar is used only if its SHA-256 is the expected one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import urllib.request
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import cache_folder

IVY_VERSION = "2.5.3"
IVY_SHA256 = "9502aa5aabf0b1484924a13ef4b5d24f121f7f91aab6768f11cc9d0906c0803b"
IVY_URL = f"https://repo1.maven.org/maven2/org/apache/ivy/ivy/{IVY_VERSION}/ivy-{IVY_VERSION}.jar"

_READ_SECONDS = 60.0
_BYTES_MAX = 16 << 20
"""Bound of a response; the jar has 1.4 MB."""


def ensure_ivy(url: str = IVY_URL) -> Path:
    """Returns the Ivy jar; fetches it from Maven Central if neither pyspark nor the cache has it.

    Raises ExternalError if the fetch fails or the fetched file has another checksum.
    """
    installed = _of_pyspark()
    if installed is not None:
        return installed
    jar = cache_folder() / f"ivy-{IVY_VERSION}.jar"
    if not _is_whole(jar):
        jar.parent.mkdir(parents=True, exist_ok=True)
        # two processes may fetch it at once: each replaces the file whole, with the same bytes
        replace_file(jar, _fetched(url))
    return jar


def _of_pyspark() -> Path | None:
    """Returns the jar in pyspark's folder, without importing pyspark."""
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        return None
    return max((Path(spark.origin).parent / "jars").glob("ivy-*.jar"), default=None)


def _is_whole(jar: Path) -> bool:
    try:
        return hashlib.sha256(jar.read_bytes()).hexdigest() == IVY_SHA256
    except FileNotFoundError:
        return False


def _fetched(url: str) -> bytes:
    """Returns the jar from the network. urllib reads the proxy variables."""
    try:
        with urllib.request.urlopen(url, timeout=_READ_SECONDS) as answer:
            data: bytes = answer.read(_BYTES_MAX)
    except OSError as error:
        raise ExternalError(
            f"Apache Ivy, which fetches the broker's jars, could not be fetched from {url}: {error}",
            remedy="check the network; behind a proxy set HTTPS_PROXY. Once fetched, it needs no network",
            retry=True,
        ) from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != IVY_SHA256:
        raise ExternalError(
            f"{url} has SHA-256 {actual}, not {IVY_SHA256}; nothing was installed",
            remedy="a proxy or mirror between here and Maven Central may have changed it: try from another network",
        )
    return data
