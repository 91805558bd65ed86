"""Resolves jars from Maven Central with Apache Ivy: Kafka's, and others for tests.

Ivy's own jar is pyspark's, if pyspark is installed, else one of this user's cache, which is fetched once and used only
if its SHA-256 is the expected one.

`JarSet` is a list of jars that run together (Kafka's is `jars.sha256` beside this module) with the SHA-256 of each. Its
folder in the cache contains only verified files. A fetch runs in a separate folder and is moved into place once
verified, under a lock between processes, so no reader ever sees half a set.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.core.errors import ExternalError
from headrace.core.files.home_files import replace_file
from headrace.core.settings import cache_folder
from headrace_dev.broker.java import Java

KAFKA_VERSION = "4.3.1"

_CACHE = "cache"
_STALLED_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_CONNECT_MS, _READ_MS = 15_000, 60_000

_DESCRIPTOR = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/extra">
  <info organisation="headrace" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of Maven Central, with its dependencies; `alone`: without.

    archive   classifier of the tar.gz to fetch instead of its jar
    """

    group: str
    name: str
    version: str
    alone: bool = False
    archive: str | None = None

    def dependency(self) -> str:
        """Returns its lines in an Ivy descriptor."""
        begin = (
            f'    <dependency org="{self.group}" name="{self.name}" rev="{self.version}" conf="default->default"'
            f' transitive="{str(not self.alone).lower()}"'
        )
        if self.archive is None:
            return f"{begin}/>"
        artifact = f'<artifact name="{self.name}" type="tar.gz" ext="tar.gz" m:classifier="{self.archive}"/>'
        return f"{begin}>{artifact}</dependency>"


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
        *("-retrieve", f"{out}/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle", "tar.gz"),
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
            if path.suffix in (".jar", ".gz"):
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


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that run together. name: of their folder in the cache; listed: file name -> SHA-256 (hex) of each."""

    name: str
    modules: tuple[Module, ...]
    listed: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """This user's cache folder of the set."""
        return cache_folder() / self.name


def jars_folder() -> Path:
    """Returns this user's cache folder of the Kafka jars."""
    return _kafka().folder


def listed_jars() -> Mapping[str, str]:
    """Returns file name -> SHA-256 (hex) of the broker's jars."""
    return read_list(files(__package__).joinpath("jars.sha256").read_text(encoding="ascii"))


def read_list(text: str) -> Mapping[str, str]:
    """Returns file name -> SHA-256, from lines in the format of `sha256sum`; `#` begins a comment."""
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: digest for digest, name in pairs}


def ensure_jars(java: Java, *, on_progress: Callable[[FetchProgress], None] | None = None) -> tuple[Path, ...]:
    """Returns the broker's verified jars: as `ensure`."""
    return ensure(_kafka(), java, on_progress=on_progress)


def ensure(jars: JarSet, java: Java, *, on_progress: Callable[[FetchProgress], None] | None = None) -> tuple[Path, ...]:
    """Returns the verified jars of a set, in list order; fetches the set first if any is missing or damaged.

    `on_progress` is called during a fetch only. Raises ExternalError if the fetch fails or a fetched jar has another
    checksum; the cache is then unchanged.
    """
    folder = jars.folder
    if unfit_jars(folder, jars.listed):
        report = on_progress or _silent
        with _lock(folder, lambda: report(arrived(_scratch(folder), len(jars.listed)))):
            # another process may have fetched them while this one waited
            unfit = unfit_jars(folder, jars.listed)
            if unfit:
                _fetch(java, jars, unfit, report)
    return tuple(folder / name for name in jars.listed)


def _kafka() -> JarSet:
    return JarSet(f"kafka-{KAFKA_VERSION}", KAFKA, listed_jars())


def unfit_jars(folder: Path, listed: Mapping[str, str]) -> list[str]:
    """Returns the listed names whose file in `folder` is missing or has another content."""
    return [name for name, digest in listed.items() if _sha256(folder / name) != digest]


def _fetch(java: Java, jars: JarSet, unfit: list[str], on_progress: Callable[[FetchProgress], None]) -> None:
    """Resolves the whole set beside its folder, verifies it, and moves the replacements into place."""
    folder = jars.folder
    scratch = _scratch(folder)
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed fetch; safe to delete, because this process holds the lock
    scratch.mkdir()
    try:
        fetched = retrieve(java, scratch, jars.modules, jars_total=len(jars.listed), on_progress=on_progress)
        _require_as_listed(fetched, jars.listed)
        folder.mkdir(exist_ok=True)
        for name in unfit:
            (fetched / name).replace(folder / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _require_as_listed(fetched: Path, listed: Mapping[str, str]) -> None:
    for name in unfit_jars(fetched, listed):
        actual = _sha256(fetched / name)
        found = "was not among the jars fetched" if actual is None else f"has SHA-256 {actual}, not {listed[name]}"
        raise ExternalError(
            f"{name} {found}; nothing was installed",
            remedy="a proxy or mirror between here and Maven Central may have changed it: try from another network",
        )


def _sha256(path: Path) -> str | None:
    """Returns the hex digest of a file, or None if there is none."""
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except OSError:
        return None


def _scratch(folder: Path) -> Path:
    """Returns the folder of a fetch, beside its destination."""
    return folder.with_name(f"{folder.name}.partial")


@contextmanager
def _lock(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds a lock between processes. The kernel releases it with the process, so a crash leaves none behind.

    A fetch ends or fails in bounded time, so the wait for one is bounded, too.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                on_wait()
                time.sleep(_LOOK_SECONDS)
        yield


def _silent(progress: FetchProgress) -> None:
    """Discards the progress."""
