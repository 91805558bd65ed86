"""Nothing in the repository names the machine it was written on or the registry its packages came from."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.repository import ROOT, tracked_files

MACHINE = re.compile(r"/(?:root|home/[a-z]\w*|work|Users/[a-z]\w*)/")
REGISTRY = re.compile(r"--(?:extra-)?index-url|--find-links|--trusted-host|files\.python[h]osted\.org|pypi\.[a-z]")
HOST = re.compile(r"https?://(?:[^@/\s'\"]*@)?([^:/\s'\"]+)")


def _texts() -> Iterator[tuple[Path, str]]:
    for path in tracked_files():
        if path != Path(__file__).resolve().relative_to(ROOT):
            yield path, (ROOT / path).read_bytes().decode("utf-8", errors="replace")


def test_no_file_names_a_folder_of_one_machine() -> None:
    assert {str(path): found for path, text in _texts() if (found := MACHINE.findall(text))} == {}


def test_no_file_names_a_package_registry() -> None:
    assert {str(path): found for path, text in _texts() if (found := REGISTRY.findall(text))} == {}


def test_no_file_names_a_host_of_this_machine_s_pip() -> None:
    # pip's settings, the environment's among them, say which registry this machine uses
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    hosts = set(HOST.findall(listed)) - {"localhost", "127.0.0.1"}
    named = re.compile("|".join(map(_naming, sorted(hosts))) if hosts else r"(?!)")
    assert {str(path): found for path, text in _texts() if (found := named.findall(text))} == {}


def _naming(host: str) -> str:
    """A pattern that finds a host's name. One without a dot, such as `proxy`, is a word too: only in an address."""
    return rf"(?<![\w.-]){re.escape(host)}(?![\w-])" if "." in host else rf"[/@]{re.escape(host)}(?=[:/])"
