"""Tests of drivers and tasks without Spark. They write hundreds of small files, which need not survive a power cut."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk takes a third of these tests' time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
