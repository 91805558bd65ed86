"""Tests of drivers and tasks without Spark: they write hundreds of small files, which no power cut is to survive."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the time of these tests would be spent waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
