"""Seeds of chaos with few faults. `make chaos SEED=..` runs others with as many as wanted, `make test-all` thirteen."""

from __future__ import annotations

import pytest

from chaos.plan import faults_in, plan_of
from chaos.run import play
from support.kafka.broker import running_broker
from support.patience import BROKER_SESSION

pytestmark = pytest.mark.broker

SHORT = 3988, 3, 0
"""A worker with its slots frozen past its lease, the connector host killed, the broker halted."""
LONG = 101, 6, 0
"""A slot frozen past its lease, all killed, the connector host killed, the broker halted, and a savepoint that is asked
for while a slot is killed."""
LEADERS = 436, 4, 2
"""With two standbys: the leader killed, the next one ended, the broker halted, the leader frozen past its lease."""


@pytest.mark.parametrize(
    ("seed", "faults", "standbys"),
    [SHORT, pytest.param(*LONG, marks=pytest.mark.full), pytest.param(*LEADERS, marks=pytest.mark.full)],
)
def test_whatever_happens_the_output_is_exact(
    tmp_path_factory: pytest.TempPathFactory, seed: int, faults: int, standbys: int
) -> None:
    # it is halted, never killed: with a short session its controller would fence it, and commits lose their markers
    with running_broker(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION) as broker:
        play(seed, faults, folder=tmp_path_factory.mktemp("x"), broker=broker, standbys=standbys)


@pytest.mark.parametrize("standbys", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_seed_has_one_plan(seed: int, *, standbys: bool) -> None:
    plan = plan_of(seed, 30, standbys=standbys)
    assert plan == plan_of(seed, 30, standbys=standbys)
    assert plan != plan_of(seed + 1, 30, standbys=standbys)
    assert faults_in(plan) == 30
