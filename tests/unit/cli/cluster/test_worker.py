"""`headrace worker`: what its options say, before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.app import _without_token
from headrace.cli.arguments import size_bytes
from headrace.cli.cluster.worker import _token, worker
from headrace.client.discovery import token_file
from headrace.client.token_files import ensure_token
from headrace.core.errors import UserError
from headrace.core.settings import Home


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1_000), ("4g", 4 << 30), ("4G", 4 << 30), ("512MB", 512 << 20), ("1.5 GiB", 3 << 29), ("8k", 8 << 10)],
)
def test_a_size(text: str, size: int) -> None:
    assert size_bytes("--memory-limit", text) == size


@pytest.mark.parametrize("text", ["", "g", "4x", "-4g", "4 g b"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UserError, match="is not a size"):
        size_bytes("--memory-limit", text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coordinator", "nowhere"], "'nowhere' is no address"),
        (["--coordinator", "127.0.0.1:1"], "wants its cluster's token"),
        (["--coordinator", "127.0.0.1:1", "--memory-limit", "much"], "'much' is not a size"),
        (["--coordinator", "127.0.0.1:1", "--reconnect-for", "long"], "--reconnect-for: 'long' is not a duration"),
        (
            ["--coordinator", "127.0.0.1:1", "--token-file", "none"],
            "the token in none cannot be read",
        ),
        (["--coordinator", "127.0.0.1:1", "--id", "a/b"], "'a/b' is no worker id"),
    ],
)
def test_wrong_use_is_told(options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    if "token" not in message:
        monkeypatch.setenv("HEADRACE_TOKEN", "secret")
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(worker)
    result = CliRunner().invoke(app, options)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_token_does_not_stay_in_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (["--token", "secret"], ["--token=secret"]):
        monkeypatch.setenv("HEADRACE_TOKEN", "before")
        assert _without_token(["--id", "w", *given, "--slots", "2"]) == ["--id", "w", "--slots", "2"]
        assert os.environ["HEADRACE_TOKEN"] == "secret"


def test_a_worker_on_the_coordinators_home_finds_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    home = Home(tmp_path)
    ensure_token(token_file(home))
    assert _token(home, "127.0.0.1:1", None, "") == token_file(home).read_text().strip()
    with pytest.raises(UserError, match=r"wants its cluster's token(.|\n)*--token-file FILE, or set HEADRACE_TOKEN"):
        _token(home, "far.example:1", None, "")
