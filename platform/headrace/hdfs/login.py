"""Authentication to HDFS: by user name, or by a delegation token in a file.

A NameNode without Kerberos trusts the name. The file is read again for each request, so that its owner may replace it.
Tokens are never logged: they are in the URLs of requests.

The file holds the URL-safe text of one token, or a token storage file of Hadoop ("HDTS"), which `hdfs fetchdt` and YARN
write:

    HDTS, version 0, count, then for each token: alias, identifier, password, kind, service   each with its length
    count, then secret keys, which are not read

Counts and lengths are Hadoop's variable-length integers (`WritableUtils.writeVLong`). The text of a token is the
URL-safe base64 of its four last fields (`Token.encodeToUrlString`).
"""

from __future__ import annotations

import base64
import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError

_MAGIC = b"HDTS"
_KINDS = (b"HDFS_DELEGATION_TOKEN", b"WEBHDFS delegation", b"SWEBHDFS delegation")
"""The kinds in order of preference. NameNodes accept all of them over WebHDFS."""
_TOKENS_MAX = 1_000
"""Tokens of one file; a larger count is that of a damaged file."""


class TokenFileError(ValueError):
    """The file has not exactly one token of HDFS. The message does not quote the content."""


def token_text(content: bytes) -> str:
    """The URL-safe text of the one token of HDFS in a file. Raises TokenFileError."""
    if not content.startswith(_MAGIC):
        try:
            text = content.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise TokenFileError("it is neither the text of a token nor a token storage file") from error
        if not text:
            raise TokenFileError("it is empty")
        return text
    tokens = _of_hdfs(content)
    if len(tokens) != 1:
        raise TokenFileError(f"it has {len(tokens)} tokens of HDFS, and must have one")
    return base64.urlsafe_b64encode(tokens[0]).decode("ascii").rstrip("=")


def has_token(content: bytes) -> bool:
    """Whether a token storage file has tokens of HDFS. Raises TokenFileError."""
    return bool(_of_hdfs(content))


def _of_hdfs(content: bytes) -> list[bytes]:
    """The tokens of the first kind that the file has."""
    stored = _stored(content)
    found = ([token for kind, token in stored if kind == wanted] for wanted in _KINDS)
    return next((tokens for tokens in found if tokens), [])


def _stored(content: bytes) -> list[tuple[bytes, bytes]]:
    """Kind and serialized form of each token in a token storage file."""
    fields = _Fields(content, len(_MAGIC))
    if (version := fields.number()) != 0:
        raise TokenFileError(f"it is a token storage file of version {version}: write it in the format `java`")
    count = fields.number()
    if not 0 <= count <= _TOKENS_MAX:
        raise TokenFileError("it is damaged")
    tokens = []
    for _ in range(count):
        fields.field()  # the alias
        begin = fields.position
        fields.field(), fields.field()  # identifier and password
        kind = fields.field()
        fields.field()  # the service
        tokens.append((kind, content[begin : fields.position]))
    return tokens


class _Fields:
    """Reads numbers and fields one after the other."""

    def __init__(self, content: bytes, position: int) -> None:
        self._content = content
        self.position = position

    def number(self) -> int:
        """A variable-length integer: one byte from -112 to 127, or a byte with the count of those that follow."""
        first = int.from_bytes(self._bytes(1), signed=True)
        if first >= -112:
            return first
        if first < -120:
            raise TokenFileError("it is damaged")  # a negative number
        return int.from_bytes(self._bytes(-112 - first))

    def field(self) -> bytes:
        """Bytes, or text, behind their length."""
        return self._bytes(self.number())

    def _bytes(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self._content):
            raise TokenFileError("it is damaged")
        part = self._content[self.position : end]
        self.position = end
        return part


TOKEN_FILE = "HEADRACE_HDFS_TOKEN_FILE"


@dataclass(frozen=True, slots=True)
class UserLogin:
    """A user by name (Hadoop's "simple" authentication)."""

    user: str

    def parameters(self) -> Mapping[str, str]:
        """The query parameters of each request."""
        return {"user.name": self.user}


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A delegation token. file: in one of the forms above."""

    file: Path

    def parameters(self) -> Mapping[str, str]:
        """The query parameters of each request. Raises UserError."""
        try:
            return {"delegation": token_text(self.file.read_bytes())}
        except (OSError, TokenFileError) as error:
            raise UserError(
                f"the delegation token of HDFS in {self.file} cannot be read: {error}",
                remedy=f"`hdfs fetchdt` writes one; {TOKEN_FILE} names the file",
            ) from error


Login = UserLogin | TokenLogin


def login_from_environment() -> Login:
    """`HEADRACE_HDFS_TOKEN_FILE`, else `HADOOP_USER_NAME`, else the user of this process."""
    if file := os.environ.get(TOKEN_FILE):
        return TokenLogin(Path(file))
    return UserLogin(os.environ.get("HADOOP_USER_NAME") or _process_user())


def _process_user() -> str:
    try:
        return getpass.getuser()
    # Python 3.13 raises OSError for a number without an entry in the table of users, as a container may have one
    except (KeyError, OSError) as error:
        raise UserError(
            f"user {os.getuid()} of this process has no name for HDFS", remedy="HADOOP_USER_NAME gives it one"
        ) from error
