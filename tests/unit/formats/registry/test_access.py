"""How a registry is reached: what is refused, and that secrets are never shown."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.formats.registry.access import RegistryAccess

URL = "https://registry:8081"


@pytest.mark.parametrize(
    "url",
    [
        "registry:8081",
        "ftp://registry",
        "http://",
        "",
        "http://h:0",
        "http://h:x",
        "http://h?a=b",
        "http://a,,http://b",
    ],
)
def test_addresses_that_are_none_are_refused(url: str) -> None:
    with pytest.raises(UserError, match="address"):
        RegistryAccess(url)


def test_secrets_in_the_url_are_refused_without_being_shown() -> None:
    with pytest.raises(UserError) as caught:
        RegistryAccess("http://ann:t0ps3cret@registry:8081")
    assert "t0ps3cret" not in str(caught.value)
    assert "password" in str(caught.value.remedy)


def test_settings_that_contradict_each_other_are_refused() -> None:
    for settings in ({"user": "ann"}, {"password": "p"}, {"user": "ann", "password": "p", "token": "t"}, {"key": "k"}):
        with pytest.raises(UserError):
            RegistryAccess(URL, **settings)


def test_secrets_are_not_shown() -> None:
    access = RegistryAccess(URL, token="t0ps3cret")
    assert "t0ps3cret" not in repr(access)
    assert access.masked("bearer t0ps3cret refused") == "bearer *** refused"
    assert RegistryAccess("http://a:1/x, http://b:2").url == "http://a:1/x, http://b:2"
