"""Finds the token, and the authority, of a cluster on YARN among those that this home has started.

<home>/yarn/<name>/{token,application,ca.crt}    written by `headrace cluster start` and `submit`
"""

from __future__ import annotations

from pathlib import Path

from headrace.client.token_files import read_token
from headrace.core.settings import Home
from headrace.leadership.yarn_locator import YarnAddress

TOKEN_FILE, APPLICATION, AUTHORITY_FILE = "token", "application", "ca.crt"


def yarn_clusters(home: Home) -> Path:
    """The folder with what the home knows of clusters on YARN."""
    return home.root / "yarn"


def started_address(home: Home, url: str) -> YarnAddress:
    """The application that this home has started last under the name of `yarn://NAME`, also if it has ended; else the
    address as it is. Raises UserError."""
    address = YarnAddress.parsed(url)
    record = yarn_clusters(home) / address.application / APPLICATION
    if address.is_id or not record.exists():
        return address
    return YarnAddress(record.read_text().strip())


def token_of(home: Home, url: str) -> str | None:
    """The token of `yarn://..`; None: this home has not started it. Raises UserError."""
    record = _record_of(home, url)
    return None if record is None else read_token(record / TOKEN_FILE)


def authority_of(home: Home, url: str) -> Path | None:
    """The authority of `yarn://..`; None: this home has not started it, or it has no TLS. Raises UserError."""
    record = _record_of(home, url)
    file = None if record is None else record / AUTHORITY_FILE
    return file if file is not None and file.exists() else None


def _record_of(home: Home, url: str) -> Path | None:
    """The folder of a cluster; None: this home has not started it."""
    address = YarnAddress.parsed(url)
    folder = yarn_clusters(home)
    if not address.is_id:
        return folder / address.application
    for record in sorted(folder.glob(f"*/{APPLICATION}")):
        if record.read_text().strip() == address.application:
            return record.parent
    return None
