"""The configuration of a one-node development broker: its `server.properties` and its logging.

Only text: reads no file and knows no process. By default it binds only loopback, because this broker has no passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"

_FIXED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # one node: no replicas
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # Kafka's default. Too long: after a crash the broker may register again only when its old session has ended. Too
    # short: a broker that is stopped for longer (a paused machine) is fenced as it wakes, and takes partitions of open
    # commits for deleted (KAFKA-20734); their markers are never written, their rows are never seen.
    "broker.session.timeout.ms": "9000",
    # a mistyped topic is an error, never a new topic
    "auto.create.topics.enable": "false",
    # small: the log cleaner alone uses 128 MB by default
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "2",
}

_LISTS = ("listeners", "advertised.listeners", "listener.security.protocol.map")

LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %m (%c{1})%n%throwable
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = WARN
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = OUT
"""


def server_properties(
    *, port: int, controller_port: int, data: Path, host: str = HOST, settings: Mapping[str, str] | None = None
) -> str:
    """Returns the text of `server.properties` for a broker on `port` of `host` with its logs in `data`.

    `settings` replace the default ones; listeners are added.
    """
    listeners = f"PLAINTEXT://{host}:{port},CONTROLLER://{HOST}:{controller_port}"
    variable = {
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": _escaped(str(data)),
    }
    ours, theirs = {**_FIXED, **variable}, dict(settings or {})
    added = {key: f"{ours[key]},{theirs[key]}" for key in _LISTS if key in theirs}
    return "".join(f"{key}={value}\n" for key, value in {**ours, **theirs, **added}.items())


def _escaped(value: str) -> str:
    r"""Returns a value in the escaped form of Java's properties files: backslash escapes, non-ASCII as \uXXXX."""
    quoted = value.replace("\\", "\\\\")
    units = quoted.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
