"""Resolves jars from Maven Central with Apache Ivy: Kafka's, and others for tests.

Ivy's own jar is pyspark's, if pyspark is installed, else one of this user's cache, which is fetched once and used only
if its SHA-256 is the expected one. This module must not know checksums of other jars or the cache: `jars` verifies
them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.core.errors import ExternalError
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import cache_folder
from headrace_dev.broker.java import Java

KAFKA_VERSION = "4.3.1"

_CACHE = "cache"
_STALLED_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_CONNECT_MS, _READ_MS = 15_000, 60_000

_DESCRIPTOR = """<ivy-module version="2.0">
  <info organisation="headrace" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of Maven Central, with its dependencies; `alone`: without."""

    group: str
    name: str
    version: str
    alone: bool = False

    def dependency(self) -> str:
        """Returns its line in an Ivy descriptor."""
        return (
            f'    <dependency org="{self.group}" name="{self.name}" rev="{self.version}" conf="default->default"'
            f' transitive="{str(not self.alone).lower()}"/>'
        )


KAFKA = (
    Module("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka's own descriptor lacks a logging backend; without one the broker would fail without a message
    Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """The progress of a fetch. Descriptors are resolved first; jars arrive only after the last of them."""

    descriptors: int
    jars: int
    jars_total: int
    bytes: int


def retrieve(
    java: Java,
    folder: Path,
    modules: Sequence[Module],
    *,
    jars_total: int,
    on_progress: Callable[[FetchProgress], None],
) -> Path:
    """Resolves every jar of the modules into a new folder below `folder`. Returns that folder.

    `folder` also receives Ivy's cache and log. Raises ExternalError, with the end of Ivy's log, if Ivy fails or if
    nothing arrives for two minutes.
    """
    ivy = ensure_ivy()
    descriptor, cache, out, log = (folder / name for name in ("ivy.xml", _CACHE, "jars", "ivy.log"))
    descriptor.write_text(_DESCRIPTOR.format(dependencies="\n".join(module.dependency() for module in modules)))
    command = [
        str(java.program),
        # without the user's own Ivy settings and repositories: the listed jars are those of Maven Central
        f"-Divy.default.ivy.user.dir={folder / 'user'}",
        f"-Dsun.net.client.defaultConnectTimeout={_CONNECT_MS}",
        f"-Dsun.net.client.defaultReadTimeout={_READ_MS}",
        *("-cp", str(ivy), "org.apache.ivy.Main"),
        *("-ivy", str(descriptor), "-cache", str(cache), "-confs", "default"),
        *("-retrieve", f"{out}/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle"),
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=_environment(os.environ)
        )
        try:
            _watch(process, folder, jars_total=jars_total, on_progress=on_progress)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if process.returncode != 0 or not out.is_dir():
        raise ExternalError(
            f"Apache Ivy could not fetch {modules[0].name} from Maven Central:\n" + _gist(log),
            remedy="check the network; behind a proxy set HTTPS_PROXY or JAVA_TOOL_OPTIONS. "
            "Once fetched, it needs no network",
            retry=True,
        )
    return out


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Returns Java's proxy properties for the standard variables (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`, either
    case).
    """
    options: list[str] = []
    for scheme in ("http", "https"):
        value = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if not value:
            continue
        proxy = urlsplit(value if "://" in value else f"http://{value}")
        if proxy.hostname is None:
            continue
        options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
        if proxy.username:
            # Ivy reads the http names for both schemes, and Java refuses passwords to https proxies by default
            options += [
                f"-Dhttp.proxyUser={unquote(proxy.username)}",
                f"-Dhttp.proxyPassword={unquote(proxy.password or '')}",
                "-Djdk.http.auth.tunneling.disabledSchemes=",
            ]
    direct = environment.get("no_proxy") or environment.get("NO_PROXY")
    if options and direct:
        hosts = (host.strip() for host in direct.split(",") if host.strip())
        options.append(
            "-Dhttp.nonProxyHosts=" + "|".join(f"*{host}" if host.startswith(".") else host for host in hosts)
        )
    return options


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for Ivy. Proxy settings are passed here, because every user can read command lines.

    The user's own JAVA_TOOL_OPTIONS come last, so they win.
    """
    options = [f'"{option}"' if " " in option else option for option in proxy_options(environment)]
    given = environment.get("JAVA_TOOL_OPTIONS")
    if given:
        options.append(given)
    return {**environment, "JAVA_TOOL_OPTIONS": " ".join(options)} if options else dict(environment)


def _watch(
    process: subprocess.Popen[bytes], folder: Path, *, jars_total: int, on_progress: Callable[[FetchProgress], None]
) -> None:
    """Reports what has arrived in Ivy's cache until Ivy ends or nothing new has arrived for `_STALLED_SECONDS`."""
    last: FetchProgress | None = None
    changed_at = time.monotonic()
    while process.poll() is None and time.monotonic() - changed_at < _STALLED_SECONDS:
        seen = arrived(folder, jars_total)
        if seen != last:
            last, changed_at = seen, time.monotonic()
            on_progress(seen)
        try:
            process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    on_progress(arrived(folder, jars_total))


def arrived(folder: Path, jars_total: int) -> FetchProgress:
    """Returns the progress of the fetch into `folder`, in whichever process it runs."""
    descriptors = jars = size = 0
    with contextlib.suppress(FileNotFoundError):  # that process may be deleting its files
        for path in folder.glob(f"{_CACHE}/*/*/**/*"):
            if path.suffix == ".jar":
                size += path.stat().st_size
                jars += 1
            elif path.suffix == ".original":
                descriptors += 1
    return FetchProgress(descriptors=descriptors, jars=jars, jars_total=jars_total, bytes=size)


def _gist(log: Path, lines_max: int = 12) -> str:
    """Returns the error lines of Ivy's log, else its last lines."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if any(sign in line for sign in ("rror", "xception", "UNRESOLVED", "FAILED"))]
    return "\n".join(f"  {line}" for line in (telling or lines)[-lines_max:])


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
