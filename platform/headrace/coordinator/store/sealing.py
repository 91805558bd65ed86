"""Encrypts what contains secrets before it reaches the ledger: with a key that only the deployment has.

The key is a file that is made with mode 0600, or one of an administrator, or a mounted secret, with a mode of its
owner's choice. Encryption is Fernet (AES-128-CBC with HMAC-SHA256) of the
cryptography package.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.token_files import ensure_token, read_token
from headrace.core.errors import ExternalError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


class Sealer:
    """Encrypts and decrypts with the key in a file, which is created at random if it is missing. Thread-safe.

    The library is loaded with the first use, because a coordinator without jobs needs none.
    """

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file

    def seal(self, data: bytes) -> str:
        """The data, encrypted. Raises UserError if the key cannot be read."""
        return self._cipher().encrypt(data).decode()

    def unseal(self, sealed: str) -> bytes:
        """The data. Raises UserError if the key cannot be read, ExternalError if it is not the one that sealed this."""
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher().decrypt(sealed.encode())
        except InvalidToken as error:
            raise ExternalError(
                f"it was encrypted with another key than the one in {self._key_file}",
                remedy="restore that file: without it, jobs of this cluster cannot be read",
            ) from error

    def _cipher(self) -> Fernet:
        from cryptography.fernet import Fernet

        # one that is there is not repaired: a process of another user than its owner cannot do that
        return Fernet(_fernet_key(read_token(self._key_file) or ensure_token(self._key_file)))


def _fernet_key(text: str) -> bytes:
    """32 bytes of any text that is long enough, as Fernet wants them."""
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
