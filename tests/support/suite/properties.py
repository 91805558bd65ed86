"""How many examples hypothesis draws for a property: few and always the same ones in a commit, many at random in full.

The full tier draws from a seed that is the day's date, so that every day tries others. pytest prints the seed;
`--hypothesis-seed` or HYPOTHESIS_SEED repeats it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings

COMMIT_EXAMPLES, FULL_EXAMPLES = 12, 150
_EXAMPLES_MIN = 2


def weighted(weight: float) -> settings:
    """A property with `weight` times as many examples as the others: more if they are cheap, fewer if they are slow."""
    return settings(max_examples=max(_EXAMPLES_MIN, round(_examples() * weight)))


def _examples() -> int:
    """Of a property that says nothing."""
    profile = settings.default
    assert profile is not None
    return profile.max_examples


def _register(name: str, examples: int, *, derandomize: bool) -> None:
    # a busy machine is no finding, nor is a rare draw that takes long
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings.register_profile(
        name,
        max_examples=examples,
        derandomize=derandomize,
        deadline=None,
        print_blob=True,
        suppress_health_check=slow,
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before hypothesis' own plugin, which reads the seed and may load another profile."""
    _register("commit", COMMIT_EXAMPLES, derandomize=True)
    _register("full", FULL_EXAMPLES, derandomize=False)
    if not config.getoption("--full"):
        settings.load_profile("commit")
        return
    settings.load_profile("full")
    if config.getoption("--hypothesis-seed") is None:
        # processes of pytest-xdist get the controller's options
        config.option.hypothesis_seed = os.environ.get("HYPOTHESIS_SEED") or f"{datetime.now(UTC):%Y%m%d}"


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--full"):
        return None
    seed = config.getoption("--hypothesis-seed")
    return f"hypothesis: {_examples()} examples, seed {seed} (again: --hypothesis-seed={seed})"
