"""Which tokens a coordinator serves with: those in the files that were named, else its home's own, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.coordinator.leading.config import CoordinatorConfig
from headrace.coordinator.leading.identity import tokens_of
from headrace.core.errors import UserError
from support.storage.permissions import mode_of, open_to_others


def test_a_home_keeps_its_tokens_over_all_runs_of_its_coordinator(tmp_path: Path) -> None:
    config = CoordinatorConfig(tmp_path / "home")
    first = tokens_of(config)
    assert first.full != first.metrics
    assert tokens_of(config) == first
    assert tokens_of(replace(config, host="0.0.0.0")) == first
    assert (tmp_path / "home/cluster/token").read_text().strip() == first.full
    assert open_to_others(tmp_path / "home") == []
    assert first.full not in repr(first)


def test_files_that_are_named_come_before_the_homes_own(tmp_path: Path) -> None:
    for name in ("full", "metrics"):
        (tmp_path / name).write_text(f"the {name} token\n")
        (tmp_path / name).chmod(0o440)
    config = CoordinatorConfig(tmp_path, token_file=tmp_path / "full", metrics_token_file=tmp_path / "metrics")
    given = tokens_of(config)
    assert (given.full, given.metrics) == ("the full token", "the metrics token")
    assert not (tmp_path / "cluster").exists()
    assert mode_of(tmp_path / "full") == 0o440


def test_a_file_that_is_named_has_to_hold_a_token(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for file, why in ((tmp_path / "none", "no such file"), (tmp_path / "empty", "holds no token")):
        full = CoordinatorConfig(tmp_path / "home", token_file=file)
        metrics = CoordinatorConfig(tmp_path / "home", metrics_token_file=file)
        for config in (full, metrics):
            with pytest.raises(UserError, match=why):
                tokens_of(config)
