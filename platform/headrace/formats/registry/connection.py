"""A schema registry in the pipeline file: beside a format (`registry: {url: ..}`), or in `connections:` for several.

Config only: what asks the registry is `client`, and slots have no such thing.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from headrace.core.config import Address, Config, Reach, secret
from headrace.core.errors import UserError
from headrace.formats.registry.access import RegistryAccess


class RegistryTls(Config):
    """PEM files, where the job's sources and sinks are opened."""

    ca: str | None = Field(default=None, description="the authorities to trust; default: those of the system")
    cert: str | None = Field(default=None, description="the certificate that authenticates this client")
    key: str | None = Field(default=None, description="its key")


class RegistryConnection(Config):
    """How a schema registry is reached."""

    url: Annotated[str, Address()] = Field(
        description="http(s)://host:port; several separated by commas: the next one is asked if one fails"
    )
    user: Annotated[str | None, Reach()] = Field(default=None, description="user of basic authentication")
    password: str | None = secret(default=None, description="its password")
    token: str | None = secret(default=None, description="bearer authentication, in place of a user")
    tls: Annotated[RegistryTls | None, Reach()] = Field(default=None, description="certificates, if url is https")
    context: str | None = Field(default=None, description="the context of ids and subjects; default: the default one")

    @model_validator(mode="after")
    def _is_reachable(self) -> RegistryConnection:
        try:
            self.access()
        except UserError as error:
            raise ValueError(f"{error.message}: {error.remedy}" if error.remedy else error.message) from error
        return self

    def access(self) -> RegistryAccess:
        """What the registry's client takes. Raises UserError; not for a checked connection."""
        tls = self.tls or RegistryTls()
        return RegistryAccess(
            url=self.url,
            user=self.user,
            password=self.password,
            token=self.token,
            ca=tls.ca,
            cert=tls.cert,
            key=tls.key,
            context=self.context,
        )
