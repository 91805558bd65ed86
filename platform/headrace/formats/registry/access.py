"""How one registry is reached: its address, secrets and TLS files. Opens nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headrace.core.errors import UserError

MASK = "***"


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Checked when it is made: raises UserError.

    url             http(s)://host:port/path; several separated by commas: the next one is asked if one fails
    user, password  basic authentication
    token           bearer authentication, instead
    ca              PEM file of the authorities to trust; None: those of the system
    cert, key       PEM files that authenticate this client
    context         of ids and subjects; None: the default one
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    context: str | None = None

    def __post_init__(self) -> None:
        for url in self.url.split(","):
            _check_url(url.strip())
        if (self.user is None) != (self.password is None):
            raise UserError("a registry takes user and password, or neither", remedy="name both")
        if self.token is not None and self.user is not None:
            raise UserError("a registry takes a token or a user, not both", remedy="leave out one of them")
        if self.key is not None and self.cert is None:
            raise UserError("a registry's `key` takes its `cert`", remedy="name the certificate that the key is of")

    def masked(self, text: str) -> str:
        """The text without this registry's secrets, which a server may have repeated."""
        for secret in (self.password, self.token):
            if secret:
                text = text.replace(secret, MASK)
        return text


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        # raises ValueError, too
        port = parts.port
    except ValueError as error:
        raise UserError(f"a registry's url is no address: {error}", remedy="write http://HOST:PORT") from None
    if parts.username is not None or parts.password is not None:
        raise UserError(
            "a registry's url contains a user or password, which would be shown with it",
            remedy="write `user:` and `password:` beside `url:`",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UserError(f"{url!r} is no address of a registry", remedy="write http://HOST:PORT or https://HOST:PORT")
    if parts.query or parts.fragment:
        raise UserError(f"{url!r} has more than an address and a path", remedy="leave out what begins with ? or #")
