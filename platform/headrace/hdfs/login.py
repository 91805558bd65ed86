"""How a process authenticates to HDFS: as a user by name, or by a delegation token in a file.

A NameNode without Kerberos believes the name. The file is read again for each request, so that its owner may replace
it. Tokens are never logged: they are in the URLs of requests.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.hdfs.token_file import TokenFileError, token_text

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
    """A delegation token. file: see `token_file`."""

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
