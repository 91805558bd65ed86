"""The deployment suite (`support.deployed.scenarios`), a file for each target.

A file's fixture `launch` says how a flow gets to run on its target; the clusters of its tests are here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# before it is imported: its assertions show values, as those of tests do
pytest.register_assert_rewrite("support.deployed.scenarios")

if TYPE_CHECKING:
    from support.deployed.deployment import Deployed, Launch


@pytest.fixture(scope="module")
def session(launch: Launch) -> Iterator[Deployed]:
    """On a cluster that runs."""
    from support.deployed.deployment import Mode

    with launch(Mode.SESSION) as running:
        yield running


@pytest.fixture(scope="module")
def strict(launch: Launch) -> Iterator[Deployed]:
    """The same; whoever is silent is taken for lost within seconds."""
    from support.deployed.deployment import Mode

    with launch(Mode.SESSION, short_leases=True) as running:
        yield running


@pytest.fixture(scope="module")
def own(launch: Launch) -> Iterator[Deployed]:
    """On a cluster that was made for it."""
    from support.deployed.deployment import Mode

    with launch(Mode.PER_JOB) as running:
        yield running


@pytest.fixture(scope="module")
def application(launch: Launch) -> Iterator[Deployed]:
    """On a cluster that was made for a program, which has submitted it."""
    from support.deployed.deployment import Mode

    with launch(Mode.APPLICATION) as running:
        yield running
