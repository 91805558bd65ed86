"""The digest of a transaction's records while they are sent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.sink import Committable
from headrace.core.digest import digest_of
from headrace.core.text.digest_text import digest_text
from headrace_connectors.kafka.sink import transactional_writer
from headrace_connectors.kafka.sink.records import Records
from headrace_connectors.kafka.sink.transactional_writer import (
    TOGETHER_BYTES,
    TOGETHER_ROWS,
    RunningDigest,
    TransactionLanes,
)
from support.suite.properties import weighted


@pytest.fixture(params=["kernels", "no kernels"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether digests are a kernel's; both count the same."""
    if request.param == "kernels":
        return True
    monkeypatch.setattr(transactional_writer, "is_loaded", lambda: False)
    monkeypatch.setattr(transactional_writer, "digest_of", digest_of)
    return False


def column(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.large_binary())


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("size", [1, 7, 3_000, 2 * TOGETHER_ROWS])
def test_batches_of_any_size_give_the_digest_of_the_whole(keyed: bool, size: int) -> None:
    count = 2 * TOGETHER_ROWS + 3 if size > 100 else 500
    values = column([None if at % 5 == 0 else b"v%d" % at for at in range(count)])
    keys = column([None if at % 7 == 0 else b"k%d" % (at % 11) for at in range(count)]) if keyed else None
    running, records = RunningDigest(), Records(values, keys)
    for begin in range(0, count, size):
        running.add(records.slice(begin, size))
    assert running.rows == count
    assert running.text() == digest_text(digest_of(values, keys))
    assert running.text() == digest_text(digest_of(values, keys)), "asking twice counts nothing twice"


@pytest.mark.parametrize("keyed", [True, False])
def test_small_batches_wait_without_kernels_and_large_ones_never_do(kernels: bool, keyed: bool) -> None:
    running = RunningDigest()
    large = column([b"x" * (TOGETHER_BYTES // 2)])
    values, keys = (column([None]), large) if keyed else (large, None)
    for _ in range(3):
        running.add(Records(values, keys))
    assert len(running._waiting) == (0 if kernels else 1)
    thrice = [None if each is None else pa.concat_arrays([each] * 3) for each in (values, keys)]
    assert running.text() == digest_text(digest_of(*thrice))


def test_nothing() -> None:
    assert RunningDigest().text() == digest_text(0)


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
