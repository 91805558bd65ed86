"""Starts a Spark session with the settings that headrace's tasks need; users may override most of them. No other module
starts a session.

A session of Spark Connect (`sc://host:port`) reaches by gRPC the process that drives the cluster. It has no RDDs, and
its server holds the cluster's settings.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.core.errors import HeadraceError, UnreachableError, UserError
from headrace.spark.cluster import cluster_settings
from headrace.spark.cluster.driver_jvm import Voice, launch, quiet_settings, require_java
from headrace.spark.cluster.packaging import ARCHIVES, PY_FILES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


LOCAL = "local"
STANDALONE = "spark://"
HERE = "local[*]"
"""The default if neither the user nor spark-submit names a master: all cores of this host."""
CONNECT_TIMEOUT_S = 5.0
ALWAYS = {
    # parallelism comes from tasks: polars threads in each of them would only compete for cores
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.python.worker.reuse": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # reports of tasks are small, but there may be many
    "spark.driver.maxResultSize": "2g",
    # headrace prints its own progress
    "spark.ui.showConsoleProgress": "false",
}
ON_THIS_HOST = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
CONNECT = "sc://"
_PORT = 15002
_SENDERS: Mapping[str, Callable[[SparkSession, list[str]], None]] = {
    PY_FILES: lambda spark, paths: spark.addArtifacts(*paths, pyfile=True),
    ARCHIVES: lambda spark, paths: spark.addArtifacts(*paths, archive=True),
}
"""Settings that name files -> how a session uploads them."""


def settings(master: str | None, chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns all settings; the user's choice wins. master: None if spark-submit may have named one."""
    own = dict(ALWAYS)
    if master is None and not submitted():
        master = chosen.get("spark.master", HERE)
    if master is not None:
        own["spark.master"] = master
        if is_local(master):
            own |= ON_THIS_HOST
        if master == cluster_settings.YARN:
            own |= cluster_settings.executor_room(cluster_settings.with_defaults(chosen))
        if cluster_settings.is_kubernetes(master):
            own |= cluster_settings.pod_room(cluster_settings.with_defaults(chosen))
    return own | dict(chosen)


def submitted() -> bool:
    """Whether spark-submit started this process: then it has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str) -> bool:
    """Whether everything runs on this host: in one process, or in several of `local-cluster`."""
    return master.startswith(LOCAL)


@contextmanager
def session(name: str, master: str | None, chosen: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, stopped at the end. A session that this process already has is used instead, and not stopped.

    Raises UserError if pyspark or Java are not installed or the master is invalid, UnreachableError if it does not
    answer.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise UserError("pyspark is not installed", remedy="pip install 'headrace[spark]'") from cause
    if master is not None and is_connect(master):
        with connected(master, chosen) as spark:
            yield spark
        return
    if SparkContext._active_spark_context is not None:
        yield SparkSession.builder.getOrCreate()
        return
    wanted = settings(master, chosen)
    require_master(wanted.get("spark.master"))
    if cluster_settings.is_kubernetes(wanted.get("spark.master")):
        cluster_settings.require_image((cluster_settings.EXECUTOR,), cluster_settings.with_defaults(wanted))
    context = _started(name, wanted, chosen)
    spark = SparkSession(context)
    try:
        yield spark
    finally:
        spark.stop()


def _started(name: str, wanted: Mapping[str, str], chosen: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    if submitted():
        SparkContext._ensure_initialized()  # from here on a SparkConf has spark-submit's settings, which win
        given = dict(SparkConf().getAll())
        unsaid = {key: value for key, value in wanted.items() if key in chosen or key not in given}
        return SparkContext(conf=SparkConf().setAppName(name).setAll(list(unsaid.items())))
    conf = SparkConf().setAppName(name).setAll(list(wanted.items()))
    # this process has a JVM already, which keeps its settings
    if SparkContext._gateway is not None:
        return SparkContext(conf=conf)
    require_java()
    if is_local(wanted.get("spark.master", "")):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    voice = Voice()
    with quiet_settings(cluster_settings.with_defaults(wanted)) as quiet:
        conf.setAll(list(quiet.items()))
        try:
            launch(conf, voice)
            context = SparkContext(conf=conf)
        except Exception as cause:
            raise _not_started(cause, voice) from cause
    voice.came_up()
    return context


def _not_started(cause: Exception, voice: Voice) -> HeadraceError:
    from pyspark import SparkContext

    said = voice.last_words(ended=SparkContext._gateway is None)
    reason = next((line for line in str(cause).splitlines() if "Exception" in line), str(cause).partition("\n")[0])
    if SparkContext._gateway is None:
        reason = next((line for line in said.splitlines() if "Exception" in line or "Error" in line), reason)
    if "Could not parse Master URL" in f"{cause}{said}" or "Master must either be" in said:
        failure: HeadraceError = UserError(
            f"Spark knows no such master: {reason.strip()}",
            remedy="--master takes local[N], spark://host:7077, yarn and k8s://https://host:port",
        )
    else:
        failure = UnreachableError(
            f"Spark does not start: {reason.strip()[:500]}",
            remedy="it needs Java 17 or newer (JAVA_HOME), and --master has to answer",
        )
    failure.add_note(said[-20_000:])
    return failure


def require_master(master: str | None) -> None:
    """Fails at once where Spark would need a minute, or wait forever. Raises UserError, UnreachableError."""
    if master is None:
        return
    if master == cluster_settings.YARN:
        cluster_settings.require_conf_dir(os.environ)
    if master.startswith(STANDALONE):
        addresses = master.removeprefix(STANDALONE).split(",")
        if not any(_answers(address) for address in addresses):
            raise UnreachableError(f"no Spark master answers at {master}", remedy="start it, or name the right one")
    if (
        cluster_settings.is_kubernetes(master)
        and not _by_proxy()
        and not _listens(*cluster_settings.api_address(master))
    ):
        raise UnreachableError(
            f"no Kubernetes API answers at {master.removeprefix(cluster_settings.SCHEME)}",
            remedy="name the right one: `kubectl cluster-info` shows it",
        )


def _by_proxy() -> bool:
    """Whether addresses are only reachable through a proxy."""
    return any(name in os.environ for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"))


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"{address!r} is no address of a Spark master", remedy="write spark://host:7077")
    return _listens(host.strip("[]"), int(port))


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


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
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
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
