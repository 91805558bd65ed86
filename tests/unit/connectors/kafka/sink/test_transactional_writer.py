"""The digest of a transaction's records while they are sent."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.core.digest import digest_of
from headrace.core.text.digest_text import digest_text
from headrace_connectors.kafka.sink import transactional_writer
from headrace_connectors.kafka.sink.records import Records
from headrace_connectors.kafka.sink.transactional_writer import TOGETHER_BYTES, TOGETHER_ROWS, RunningDigest


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
