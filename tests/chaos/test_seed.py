"""One seed of chaos, with few faults. `make chaos SEED=..` runs others with as many as wanted, `make test-all` ten."""

from __future__ import annotations

import pytest

from chaos.plan import faults_in, plan_of
from chaos.run import play
from support.kafka.broker import running_broker
from support.patience import BROKER_SESSION

pytestmark = pytest.mark.broker

SHORT = 3988, 3
"""A worker with its slots frozen past its lease, the connector host killed, the broker halted."""
LONG = 101, 6
"""A slot frozen past its lease, all killed, the connector host killed, the broker halted, and a savepoint that is asked
for while a slot is killed."""


@pytest.mark.parametrize(("seed", "faults"), [SHORT, pytest.param(*LONG, marks=pytest.mark.full)])
def test_whatever_happens_the_output_is_exact(tmp_path_factory: pytest.TempPathFactory, seed: int, faults: int) -> None:
    # it is halted, never killed: with a short session its controller would fence it, and commits lose their markers
    with running_broker(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION) as broker:
        play(seed, faults, folder=tmp_path_factory.mktemp("x"), broker=broker)


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_has_one_plan(seed: int) -> None:
    assert plan_of(seed, 30) == plan_of(seed, 30)
    assert plan_of(seed, 30) != plan_of(seed + 1, 30)
    assert faults_in(plan_of(seed, 30)) == 30
