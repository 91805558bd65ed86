"""Slots of one attempt over the real transport: what they say, what they are told, and how they leave."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.exchange.network.incoming import Listener
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.explain import plan_dict
from headrace.rpc import codec
from headrace.rpc.deployment import Deployment, PeerDocument
from headrace.rpc.messages import CancelSlot, Deploy, FromSlot, Left
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace.worker.slot.runtime import SlotRuntime
from headrace_connectors.memory import Collected, Feed, open_collected, open_feed
from support.control.slots import Attempt, SlotFailedError, deployed
from support.processes.running import WAIT_SECONDS, wait_until

SCHEMA = {"k": "int64 not null", "v": "int64", "ts": "timestamp not null"}
TOTALS = {"totals": {"from": "rows", "key_by": ["k"], "aggregate": {"n": "count(*)", "v": "sum(v)"}}}


def pipeline(steps: dict[str, Any], last: str, parallelism: int = 2, **sink: Any) -> Pipeline:
    source = {
        "memory": {"name": "rows", "partitions": 2},
        "schema": SCHEMA,
        "time": {"column": "ts", "out_of_orderness": "0s"},
    }
    return pipeline_from_dict(
        {
            "name": "p",
            "parallelism": parallelism,
            "batch": {"max_rows": 100},
            "sources": {"rows": source},
            "steps": steps,
            "sinks": {"out": {"from": last, "memory": {"name": "out"}} | sink},
        }
    )


def rows(keys: range, at_ms: int = 0) -> pl.DataFrame:
    times = pl.Series([at_ms * 1000] * len(keys), dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"k": list(keys), "v": list(keys), "ts": times})


def totals(collected: Collected) -> dict[int, int]:
    """Key -> the last count."""
    return {row["k"]: row["n"] for row in collected.rows()}


def wait_rows(collected: Collected, count: int) -> None:
    assert collected.wait_rows(count, WAIT_SECONDS), f"{count} rows did not come"


@pytest.fixture
def feed() -> Iterator[Feed]:
    with open_feed("rows", 2) as opened:
        yield opened


@pytest.fixture
def collected() -> Iterator[Collected]:
    with open_collected("out") as opened:
        yield opened


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "state").glob("*")}


def test_a_checkpoint_writes_what_is_new_and_names_the_files_of_earlier_ones(
    tmp_path: Path, feed: Feed, collected: Collected
) -> None:
    feed.append(rows(range(1000)))
    with deployed(Attempt(pipeline(TOTALS, "totals"), tmp_path)) as attempt:
        wait_rows(collected, 1000)
        first = attempt.epoch()
        written = files(tmp_path)
        unchanged = attempt.epoch()
        assert files(tmp_path) == written
        assert unchanged.states == first.states
        feed.append(rows(range(5)))
        wait_rows(collected, 1005)
        more = attempt.epoch()
        named = {part.path for handle in more.states for part in handle.files}
        assert {part.path for handle in first.states for part in handle.files} & named
        attempt.cancel()
    with deployed(Attempt(pipeline(TOTALS, "totals", 3), tmp_path, number=2, restored=more)) as attempt:
        feed.append(rows(range(10)))
        feed.end()
        attempt.run_to_the_end()
    assert totals(collected) == {k: 3 if k < 5 else 2 if k < 10 else 1 for k in range(1000)}


def test_storage_that_refuses_declines_an_epoch_and_the_next_one_is_whole(
    tmp_path: Path, feed: Feed, collected: Collected
) -> None:
    feed.append(rows(range(100)))
    with deployed(Attempt(pipeline(TOTALS, "totals"), tmp_path)) as attempt:
        wait_rows(collected, 100)
        in_the_way = tmp_path / "state"
        in_the_way.write_text("a file where the folder should be")
        declined = attempt.wait_declined(attempt.trigger())
        assert "state" in declined.failure.message
        assert declined.failure.domain == "external"
        in_the_way.unlink()
        snapshot = attempt.epoch()
        attempt.cancel()
    with deployed(Attempt(pipeline(TOTALS, "totals", 1), tmp_path, number=2, restored=snapshot)) as attempt:
        feed.append(rows(range(50)), 1)
        feed.end()
        attempt.run_to_the_end()
    assert totals(collected) == {k: 2 if k < 50 else 1 for k in range(100)}


def test_a_stop_gives_a_savepoint_after_which_nothing_comes(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    feed.append(rows(range(100)))
    savepoint = str(tmp_path / "elsewhere")
    with deployed(Attempt(pipeline(TOTALS, "totals"), tmp_path)) as attempt:
        wait_rows(collected, 100)
        snapshot = attempt.epoch(savepoint=savepoint, stop=True)
        feed.append(rows(range(100)), 1)
        attempt.finish()
    assert totals(collected) == dict.fromkeys(range(100), 1)
    moved = tmp_path / "moved"
    Path(savepoint).rename(moved)
    found = [
        handle.model_copy(
            update={
                "files": tuple(
                    part.model_copy(update={"path": part.path.replace(savepoint, str(moved))}) for part in handle.files
                )
            }
        )
        for handle in snapshot.savepoint
    ]
    restored = replace(snapshot, states=(), savepoint=tuple(found))
    fresh = tmp_path / "job2"
    with deployed(Attempt(pipeline(TOTALS, "totals", 3), fresh, restored=restored, from_savepoint=True)) as attempt:
        feed.end()
        attempt.run_to_the_end()
    assert totals(collected) == dict.fromkeys(range(100), 2)


def test_a_savepoint_may_lie_where_no_checkpoint_can(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    """A savepoint needs no conditional put, so any scheme that fsspec knows will do."""
    folder = f"memory://{tmp_path.name}/savepoint"
    feed.append(rows(range(100)))
    with deployed(Attempt(pipeline(TOTALS, "totals"), tmp_path)) as attempt:
        wait_rows(collected, 100)
        saved = attempt.epoch(savepoint=folder)
        attempt.cancel()
    assert all(part.path.startswith(folder) for handle in saved.savepoint for part in handle.files)
    with deployed(
        Attempt(pipeline(TOTALS, "totals"), tmp_path, number=2, restored=saved, from_savepoint=True)
    ) as again:
        feed.append(rows(range(100)))
        feed.end()
        again.run_to_the_end()
    assert set(totals(collected).values()) == {2}


def test_a_drain_fires_every_window_before_the_last_barrier(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    windows = {"w": {"from": "rows", "key_by": ["k"], "window": {"tumbling": "1h"}, "aggregate": {"n": "count(*)"}}}
    feed.append(rows(range(20)))
    with deployed(Attempt(pipeline(windows, "w"), tmp_path)) as attempt:
        wait_until(lambda: attempt.counters()["rows"]["rows_in"] == 20, "rows were not read")
        assert collected.rows() == []
        attempt.epoch(stop=True, drain=True)
        attempt.finish()
    assert totals(collected) == dict.fromkeys(range(20), 1)


def test_without_alignment_epochs_pass_and_nothing_is_lost(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    feed.append(rows(range(100)))
    with deployed(Attempt(pipeline(TOTALS, "totals"), tmp_path, mode="at-least-once")) as attempt:
        snapshot = attempt.epoch()
        attempt.cancel()
    flow = pipeline(TOTALS, "totals", 3)
    with deployed(Attempt(flow, tmp_path, number=2, restored=snapshot, mode="at-least-once")) as attempt:
        feed.append(rows(range(100)), 1)
        feed.end()
        attempt.run_to_the_end()
    assert all(n >= 2 for n in totals(collected).values())
    assert len(totals(collected)) == 100


def test_every_row_reaches_every_subtask_of_a_broadcast(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    spread = {"spread": {"from": "rows", "with_columns": {"w": "v"}, "partition": "broadcast"}}
    feed.append(rows(range(30)))
    feed.end()
    with deployed(Attempt(pipeline(spread, "spread", 3), tmp_path)) as attempt:
        attempt.run_to_the_end()
    assert sorted(row["k"] for row in collected.rows()) == sorted([*range(30)] * 3)


def test_two_sources_of_different_width_meet(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    source = {"schema": SCHEMA, "time": {"column": "ts", "out_of_orderness": "0s"}}
    flow = pipeline_from_dict(
        {
            "name": "p",
            "parallelism": 3,
            "sources": {
                "rows": source | {"memory": {"name": "rows", "partitions": 2}},
                "others": source | {"memory": {"name": "others"}, "parallelism": 1},
            },
            "steps": {
                "both": {"union": ["rows", "others"]},
                "totals": {"from": "both", "key_by": ["k"], "aggregate": {"n": "count(*)"}},
            },
            "sinks": {"out": {"from": "totals", "memory": {"name": "out"}, "parallelism": 2}},
        }
    )
    with open_feed("others") as others:
        others.append(rows(range(50)))
        others.end()
        with deployed(Attempt(flow, tmp_path)) as attempt:
            feed.append(rows(range(30)))
            snapshot = attempt.epoch()
            attempt.cancel()
        with deployed(Attempt(flow, tmp_path, number=2, restored=snapshot)) as attempt:
            feed.end()
            attempt.run_to_the_end()
    assert totals(collected) == {k: 2 if k < 30 else 1 for k in range(50)}


def test_status_tells_rows_time_and_the_end(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    feed.append(rows(range(10), at_ms=5_000), 0)
    feed.append(rows(range(10), at_ms=7_000), 1)
    with deployed(Attempt(pipeline(TOTALS, "totals", 1), tmp_path)) as attempt:
        wait_until(lambda: attempt.counters()["out"]["rows_in"] == 20, "rows are not counted")
        # time is told a moment after the rows
        wait_until(lambda: attempt.statuses()[0].sources[0].watermark == 4_999, "time does not move on")
        (source,) = attempt.statuses()[0].sources
        assert (source.source, source.subtask, source.has_splits, source.watermark) == ("rows", 0, True, 4_999)
        feed.end()
        attempt.wait_input_ended()
        wait_until(lambda: all(each.ended for each in attempt.statuses()[0].subtasks), "no end is reported")
        attempt.run_to_the_end()


def test_partitions_past_the_limit_of_drift_wait_and_go_on(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    def read() -> int:
        return attempt.counters()["rows"]["rows_in"]

    with deployed(Attempt(pipeline(TOTALS, "totals", 1), tmp_path)) as attempt:
        feed.append(rows(range(10), at_ms=50_000), 1)
        wait_until(lambda: read() == 10, "rows are not read")
        attempt.limit("rows", 20_000)
        attempt.epoch()  # commands are obeyed in turn: the limit holds from here on
        feed.append(rows(range(5), at_ms=1_000), 0)
        wait_until(lambda: read() == 15, "the slow partition is held up")
        feed.append(rows(range(10), at_ms=51_000), 1)
        feed.append(rows(range(5), at_ms=2_000), 0)
        wait_until(lambda: read() == 20, "the slow partition is held up")
        attempt.epoch()
        assert read() == 20
        attempt.limit("rows", None)
        wait_until(lambda: read() == 30, "the fast partition does not go on")
        attempt.cancel()


def test_a_row_that_fails_is_said_once_with_its_node_and_place(
    tmp_path: Path, feed: Feed, collected: Collected
) -> None:
    cast = {"cast": {"from": "rows", "with_columns": {"w": "cast(cast(v as string) || 'x' as int64)"}}}
    with deployed(Attempt(pipeline(cast, "cast"), tmp_path)) as attempt:
        feed.append(rows(range(1)))
        failed = attempt.wait_failed()
        assert (failed.failure.node, failed.failure.domain, failed.failure.retry) == ("cast", "user", False)
        assert failed.failure.remedy is not None
        wait_until(lambda: any(slot.left.is_set() for slot in attempt.slots), "the slot did not leave")
        assert not any(slot.clean for slot in attempt.slots if slot.left.is_set())


def test_another_plan_than_the_coordinators_is_refused(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    with pytest.raises(SlotFailedError, match="plans p differently"):
        Attempt(
            pipeline(TOTALS, "totals"),
            tmp_path,
            change=lambda deployment: deployment.model_copy(update={"plan_hash": "another"}),
        )


def test_state_that_is_gone_fails_the_deployment_by_name(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    feed.append(rows(range(100)))
    with deployed(Attempt(pipeline(TOTALS, "totals"), tmp_path)) as attempt:
        wait_rows(collected, 100)
        snapshot = attempt.epoch()
        attempt.cancel()
    gone = tmp_path / snapshot.states[0].files[0].path
    gone.unlink()
    with pytest.raises(SlotFailedError, match=gone.name):
        Attempt(pipeline(TOTALS, "totals"), tmp_path, number=2, restored=snapshot)


def test_a_cancel_is_heard_while_a_peer_is_missing(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    flow = pipeline(TOTALS, "totals")
    mine, other = Listener("127.0.0.1", None), Listener("127.0.0.1", None)
    peers = tuple(
        PeerDocument(index=index, host=each.address.host, port=each.address.port)
        for index, each in enumerate((mine, other))
    )
    deployment = Deployment(
        pipeline=flow.to_dict(),
        plan_hash=plan_dict(compile_pipeline(flow).physical)["hash"],
        slot=0,
        slots=2,
        peers=peers,
        storage=str(tmp_path),
    )
    said: list[FromSlot] = []
    slot = SlotRuntime(mine, lambda payload: said.append(codec.from_slot(payload)))
    slot.obey(CancelSlot())  # of an attempt that never began here
    slot.obey(Deploy("j", 1, "t", deployment.model_dump_json().encode()))
    wait_until(lambda: any(each.name == "connect-1" for each in threading.enumerate()), "it does not connect")
    slot.obey(CancelSlot())
    assert slot.left.wait(WAIT_SECONDS)
    assert said == [Left("j", 1)]
    assert slot.clean
    other.close()
    wait_until(lambda: not any(each.name == "connect-1" for each in threading.enumerate()), "a thread is left")


def test_code_of_the_user_is_fetched_and_imported(
    tmp_path: Path, feed: Feed, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = tmp_path / "shipped_with_the_job.py"
    module.write_text("def doubled(frame):\n    return frame.with_columns(v=frame['v'] * 2)\n")
    step = {
        "from": "rows",
        "map": {"function": "shipped_with_the_job:doubled", "schema": {"k": "int64", "v": "int64", "ts": "timestamp"}},
    }
    feed.append(rows(range(5)))
    feed.end()
    sys.path.insert(0, str(tmp_path))  # of this process, which plans too; the slot's copy goes before it
    try:
        attempt = Attempt(
            pipeline({"twice": step}, "twice"),
            tmp_path,
            change=lambda deployment: deployment.model_copy(update={"code": (str(module),)}),
        )
        with deployed(attempt):
            attempt.run_to_the_end()
    finally:
        sys.modules.pop("shipped_with_the_job", None)
    assert sorted(row["v"] for row in collected.rows()) == [0, 2, 4, 6, 8]


def test_files_are_read_on_where_a_checkpoint_left_them(tmp_path: Path, collected: Collected) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        lines = [f'{{"k": {line % 7}}}' for line in range(number * 100, number * 100 + 500)]
        (folder / f"part-{number}.json").write_text("\n".join(lines) + "\n")
    flow = pipeline_from_dict(
        {
            "name": "p",
            "parallelism": 2,
            "batch": {"max_rows": 50},
            "sources": {
                "rows": {
                    "files": {"path": str(folder / "*.json"), "partitions": 3},
                    "format": "json",
                    "schema": {"k": "int64"},
                }
            },
            "steps": {"totals": {"from": "rows", "key_by": ["k"], "aggregate": {"n": "count(*)"}}},
            "sinks": {"out": {"from": "totals", "memory": {"name": "out"}}},
        }
    )
    snapshot = None
    for number, parallelism in enumerate((2, 3, 1), start=1):
        sized = flow.model_copy(update={"parallelism": parallelism})
        with deployed(Attempt(sized, tmp_path, number=number, restored=snapshot)) as attempt:
            if parallelism == 1:
                attempt.run_to_the_end()
            else:
                snapshot = attempt.epoch()
                attempt.cancel()
    counts = [0] * 7
    for number in range(6):
        for line in range(number * 100, number * 100 + 500):
            counts[line % 7] += 1
    assert totals(collected) == dict(enumerate(counts))
