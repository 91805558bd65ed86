"""Sessions of browsers: a signed text in a cookie, so that a restarted page knows them still. No clock, no I/O.

    EXPIRES.NONCE.SIGNATURE     HMAC-SHA256 of the first two by a key that is derived from the page's token

Another token ends all sessions. A logout ends one until the page restarts: ended ones are kept in memory. The text
holds neither the token nor anything from which it could be computed.
"""

from __future__ import annotations

import hashlib
import hmac

SESSION_SECONDS = 12 * 3600
ENDED_MAX = 10_000
"""So many sessions that were ended before their time are kept; then the earliest are forgotten."""


class Sessions:
    """Makes and checks sessions of one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._key = hmac.new(self._token, b"sessions of the page", hashlib.sha256).digest()
        self._ended: dict[str, None] = {}

    def is_token(self, text: str) -> bool:
        """Whether the text is the page's token; takes the same time for each text."""
        return hmac.compare_digest(text.encode(), self._token)

    def made(self, now_s: int, nonce: str) -> str:
        """A new session. nonce: random, so that no two are equal."""
        text = f"{now_s + SESSION_SECONDS}.{nonce}"
        return f"{text}.{self._signature(text)}"

    def is_valid(self, session: str, now_s: int) -> bool:
        """Whether the session was made with this token and has not expired."""
        text, _, signature = session.rpartition(".")
        expires = text.partition(".")[0]
        signed = hmac.compare_digest(signature.encode(), self._signature(text).encode())
        return signed and expires.isdecimal() and now_s < int(expires) and session not in self._ended

    def end(self, session: str, now_s: int) -> None:
        """Ends a session before its time."""
        if self.is_valid(session, now_s):
            self._ended[session] = None
            if len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def _signature(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
