from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.sink import Committable
from headrace_connectors.kafka.transactions.transactional_ids import TransactionLanes
from support.suite.properties import weighted


def committable(name: str, epoch: int) -> Committable:
    return Committable("out", 0, epoch, {}, name)


def test_one_open_one_prepared_one_spare() -> None:
    lanes = TransactionLanes(["a", "b", "c"])
    assert lanes.begin_spare() == "a"
    assert lanes.begin_spare() is None, "there is one already"
    assert lanes.open() == "a"
    assert lanes.begin_spare() == "b"
    lanes.prepared(committable("a", 1))
    assert lanes.open() == "b"
    assert lanes.begin_spare() == "c"
    assert [item.name for item in lanes.pending] == ["a"]
    lanes.committed(1, {})
    assert lanes.pending == ()


def test_without_a_commit_the_names_run_out() -> None:
    lanes = TransactionLanes(["a", "b"])
    for epoch, name in enumerate("ab", 1):
        assert lanes.begin_spare() == name
        lanes.open()
        lanes.prepared(committable(name, epoch))
    assert lanes.begin_spare() is None
    lanes.committed(1, {})
    assert lanes.begin_spare() == "a"
    assert [item.epoch for item in lanes.pending] == [2], "only what was committed is done"


def test_what_a_declined_epoch_prepared_is_committed_with_the_next_one() -> None:
    lanes = TransactionLanes(["a", "b", "c"])
    for epoch in (4, 5):
        name = lanes.begin_spare()
        assert name is not None
        lanes.open()
        lanes.prepared(committable(name, epoch))
    assert [(item.name, item.epoch) for item in lanes.pending] == [("a", 4), ("b", 5)]
    lanes.committed(5, {})
    assert lanes.pending == ()
    assert [lanes.begin_spare()] == ["c"], "the name that was used longest ago is the next"


def test_a_successor_takes_the_place_of_a_name() -> None:
    lanes = TransactionLanes(["a"])
    lanes.begin_spare()
    lanes.open()
    lanes.prepared(committable("a", 1))
    lanes.committed(1, {"a": "a2", "other": "x"})
    lanes.committed(1, {"a": "a2"})
    assert lanes.begin_spare() == "a2"


STEPS = st.lists(st.sampled_from(["spare", "open", "prepare", "commit", "renew"]), max_size=60)


@weighted(4)
@given(count=st.integers(1, 5), steps=STEPS, lag=st.integers(0, 3))
def test_a_name_is_in_one_hand_at_a_time(count: int, steps: list[str], lag: int) -> None:
    """Whatever happens in which order: no name is taken for a spare while its transaction waits to be committed."""
    lanes = TransactionLanes([f"n{at}" for at in range(count)])
    opened: str | None = None
    epoch, renewed = 1, 0
    for step in steps:
        held = {item.name for item in lanes.pending} | ({opened} if opened else set())
        if step == "spare":
            name = lanes.begin_spare()
            assert name not in held
        elif step == "open" and opened is None and lanes.spare is not None:
            opened = lanes.open()
            assert opened not in held
        elif step == "prepare" and opened is not None:
            lanes.prepared(committable(opened, epoch))
            opened, epoch = None, epoch + 1
        elif step in ("commit", "renew"):
            successors = {}
            if step == "renew":
                renewed += 1
                successors = {item.name: f"{item.name}-{renewed}" for item in lanes.pending}
            kept = [item for item in lanes.pending if item.epoch > epoch - lag]
            lanes.committed(epoch - lag, successors)
            assert list(lanes.pending) == kept
    names = {item.name for item in lanes.pending} | {name for name in (opened, lanes.spare) if name}
    assert len(names) == len(lanes.pending) + (opened is not None) + (lanes.spare is not None), "all of them differ"
    assert len(names) <= count
