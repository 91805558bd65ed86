"""The first module of every container: `python -m headrace.yarn.container MODULE ARGUMENTS ..`.

It reads the container's credentials, writes and exports their secrets, and executes the module:

    $HEADRACE_HOME/secrets/<name>    `headrace.file.<name>`, mode 0600
    variable <NAME>                  `headrace.variable.<NAME>`
    $HEADRACE_HOME/secrets/tokens    all of them, if a token of HDFS is among them: HEADRACE_HDFS_TOKEN_FILE names it

YARN writes the credentials as a token storage file of Hadoop (`org.apache.hadoop.security.Credentials`), whose counts
and lengths are Hadoop's variable-length integers; HADOOP_TOKEN_FILE_LOCATION names it:

    HDTS 0 <count> {alias identifier password kind service} <count> {alias secret}

YARN deletes the container's folder with the container. The module starts no thread and no JVM before it executes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.hdfs.login import TOKEN_FILE as HDFS_TOKEN_FILE
from headrace.hdfs.login import has_token

_MAGIC, _WRITABLE = b"HDTS", 0
_TOKEN_FIELDS = 5


def secrets_of(data: bytes) -> Mapping[str, bytes]:
    """The secrets by alias. Raises ExternalError for data of another format."""
    if data[:4] != _MAGIC or data[4:5] != bytes([_WRITABLE]):
        raise ExternalError("the container's credentials have an unknown format", remedy="HADOOP_TOKEN_FILE_LOCATION")
    reader = _Reader(data, len(_MAGIC) + 1)
    try:
        for _ in range(reader.number() * _TOKEN_FIELDS):
            reader.text()
        return {reader.text().decode(): reader.text() for _ in range(reader.number())}
    except (IndexError, UnicodeDecodeError) as error:
        raise ExternalError("the container's credentials are damaged") from error


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def number(self) -> int:
        """A variable-length integer: one byte from -112 to 127, or a byte with the count of those that follow."""
        first = int.from_bytes(self._bytes(1), "big", signed=True)
        if first >= -112:
            return first
        is_negative = first < -120
        value = int.from_bytes(self._bytes(-120 - first if is_negative else -112 - first), "big")
        return ~value if is_negative else value

    def text(self) -> bytes:
        """Bytes after their length."""
        return self._bytes(self.number())

    def _bytes(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise IndexError(end)
        found = self._data[self._at : end]
        self._at = end
        return found


FILE_SECRET, VARIABLE_SECRET = "headrace.file.", "headrace.variable."
TOKEN_LOCATION = "HADOOP_TOKEN_FILE_LOCATION"
NODE_VARIABLE = "NM_HOST"
"""The host name of a container's node, in its environment."""
TOKEN, KEY, TOKENS = "token", "key", "tokens"
"""Names of secrets: the cluster's token; the key of its ledger, which workers do not get; delegation tokens."""
CERTIFICATE, CERTIFICATE_KEY, AUTHORITY, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
"""Those of TLS. Workers do not get the authority's key."""


def secret_file(name: str) -> Path:
    """Where a secret of this container is."""
    return container_home() / "secrets" / name


def container_home() -> Path:
    """HEADRACE_HOME of a container's processes."""
    return Path.cwd() / "home"


def prepared_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Writes the files with secrets. Returns the environment of the module. Raises HeadraceError, OSError."""
    credentials = Path(own[TOKEN_LOCATION]).read_bytes()
    found = secrets_of(credentials)
    make_private_folder(container_home())
    make_private_folder(container_home() / "secrets")
    temporary = Path.cwd() / "tmp"
    temporary.mkdir(exist_ok=True)
    variables: dict[str, str] = {}
    for alias, secret in found.items():
        if alias.startswith(FILE_SECRET):
            replace_file(secret_file(alias.removeprefix(FILE_SECRET)), secret, mode=PRIVATE_FILE)
        elif alias.startswith(VARIABLE_SECRET):
            variables[alias.removeprefix(VARIABLE_SECRET)] = secret.decode()
    if has_token(credentials):
        # a copy, which is replaced by newer tokens while the container runs
        replace_file(secret_file(TOKENS), credentials, mode=PRIVATE_FILE)
        variables = {HDFS_TOKEN_FILE: str(secret_file(TOKENS)), **variables}
    home = {"HEADRACE_HOME": str(container_home()), "TMPDIR": str(temporary)}
    return {**own, **home, "PYTHONUNBUFFERED": "1", **variables}


def main() -> None:
    """Replaces this process by the module."""
    environment = prepared_environment(os.environ)
    os.execve(sys.executable, [sys.executable, "-m", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
