"""Tokens in files: a coordinator creates one that no other user can read; clients and workers read theirs.

ensure_token   for a coordinator: the token in the file; creates a random one if the file does not exist
given_token    for a client or worker: from a file, `HEADRACE_TOKEN`, or the file in `HEADRACE_TOKEN_FILE`
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.files.home_files import OTHERS, PRIVATE_FILE, make_private_folder

TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "HEADRACE_TOKEN", "HEADRACE_TOKEN_FILE"
_TOKEN_BYTES = 32
_SENDABLE = re.compile(r"[ -~]+\Z")
"""Valid in a header: printable ASCII in one line."""

_log = logging.getLogger(__name__)


def read_token(path: Path) -> str | None:
    """The token in a file; None if there is no file. Raises UserError for a file without a token."""
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"the token in {path} cannot be read: {reason}") from error
    return _checked(token, str(path))


def required_token(path: Path) -> str:
    """The token in a file that the user named. Raises UserError, also if there is no file."""
    token = read_token(path)
    if token is None:
        raise UserError(f"the token in {path} cannot be read: there is no such file")
    return token


def ensure_token(path: Path) -> str:
    """The token in a file, created at random if there is no file; two processes that create it get the same one.

    No other user can read the file at any time. The mode of a file that others can read is repaired, and that is
    logged. Raises UserError.
    """
    token = read_token(path)
    if token is None:
        try:
            _make(path)
        except OSError as error:
            raise UserError(f"the token file {path} cannot be made: {error.strerror}") from error
        return required_token(path)
    _repair_mode(path)
    return token


def given_token(file: Path | None = None, token: str = "") -> str | None:
    """The first of: the token in `file`, `token`, HEADRACE_TOKEN, the token in the file HEADRACE_TOKEN_FILE names.

    None if none is set. Raises UserError for a file that cannot be read.
    """
    if file is not None:
        return required_token(file)
    named = os.environ.get(TOKEN_FILE_VARIABLE)
    given = token or os.environ.get(TOKEN_VARIABLE)
    if given:
        return _checked(given.strip(), TOKEN_VARIABLE)
    return required_token(Path(named)) if named else None


def _checked(token: str, place: str) -> str:
    if not _SENDABLE.match(token):
        remedy = "a token is a random text of one line, in ASCII; without the file a coordinator makes its own"
        raise UserError(f"{place} holds no token", remedy=remedy)
    return token


def _make(path: Path) -> None:
    """Creates a token file at `path` unless one exists; it is complete as soon as it is visible."""
    make_private_folder(path.parent)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "w") as file:
        file.write(f"{secrets.token_urlsafe(_TOKEN_BYTES)}\n")
    try:
        path.hardlink_to(part)
    except FileExistsError:
        pass  # another process was faster: its token counts
    finally:
        part.unlink()


def _repair_mode(path: Path) -> None:
    if not path.stat().st_mode & OTHERS:
        return
    try:
        path.chmod(PRIVATE_FILE)
    except OSError as error:
        raise UserError(
            f"other users can read the token in {path}, and its mode cannot be changed: {error.strerror}",
            remedy=f"its owner runs: chmod 600 {path}",
        ) from error
    _log.warning(
        "other users could read the token in %s; for a new one, stop the cluster, remove the file, start again",
        path,
    )
