"""Who is connected, by what comes and when: times are given, nothing runs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.rpc import codec
from headrace.rpc.messages import FromWorker, Heartbeat, KillSlot, SlotDown, ToWorker, WorkerLeaving
from headrace.rpc.sessions.session import Session
from headrace.rpc.sessions.sessions import Sessions, WorkerConnected, WorkerDisconnected, WorkerMessage
from headrace.rpc.time_settings import ClusterTimes
from headrace.rpc.v1 import control_pb2
from support.control.worker import Worker
from support.suite.properties import weighted

TIMES = ClusterTimes(heartbeat=2_000, worker_lost=15_000, reconnect=2_000)
REGISTER = Worker().register
W1 = REGISTER.worker


class Stream:
    """Counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def frame(number: int, message: FromWorker, acknowledged: int = 0) -> control_pb2.WorkerFrame:
    return control_pb2.WorkerFrame(number=number, acknowledged=acknowledged, message=codec.from_worker_proto(message))


def down(slot: str = "s1") -> SlotDown:
    return SlotDown(slot, "ended", clean=True)


def joined(now_s: float = 0.0) -> tuple[Sessions, Session, Stream]:
    sessions, stream = Sessions(TIMES), Stream()
    session, event = sessions.open(REGISTER, "a", now_s)
    assert event == WorkerConnected(W1, REGISTER)
    session.attach(stream, 0, now_s)
    return sessions, session, stream


def silent(sessions: Sessions, now_s: float, suspended_s: float = 0.0) -> list[str]:
    return [each.reason for each in sessions.lose_silent(now_s, suspended_s=suspended_s)]


def test_a_worker_is_lost_once_after_its_last_frame_and_not_before() -> None:
    sessions, session, _ = joined()
    assert sessions.receive(session, frame(0, Heartbeat()), 3.0) is None
    assert silent(sessions, 18.0) == []
    assert silent(sessions, 18.1) == ["no heartbeat for 15 s"]
    assert silent(sessions, 99.0) == []
    assert session.over
    assert sessions.of(W1) is None


def test_time_in_which_this_process_was_suspended_is_no_silence() -> None:
    sessions, _, _ = joined()
    assert silent(sessions, 100.0, suspended_s=90.0) == []
    assert silent(sessions, 106.0) == ["no heartbeat for 15 s"]


def test_a_stream_that_returns_in_time_goes_on_with_its_session() -> None:
    sessions, session, stream = joined()
    session.receive(frame(0, Heartbeat()), 1.0)
    assert sessions.drop(session, stream, 5.0) is None
    assert silent(sessions, 7.0) == []
    assert sessions.resume(W1, "a", 7.0) is session
    session.attach(Stream(), 0, 7.0)
    assert silent(sessions, 7.1) == []


def test_a_stream_that_stays_away_is_a_loss() -> None:
    sessions, session, stream = joined()
    sessions.drop(session, stream, 5.0)
    assert silent(sessions, 7.1) == ["its connection dropped and did not come back in 2 s"]


def test_the_end_of_a_replaced_stream_drops_nothing() -> None:
    sessions, session, first = joined()
    second = Stream()
    session.attach(second, 0, 1.0)
    assert first.woken == 1
    assert sessions.drop(session, first, 2.0) is None
    assert session.stream is second
    assert silent(sessions, 10.0) == []


def test_a_session_whose_start_the_worker_has_not_received_begins_again() -> None:
    sessions, session, stream = joined()
    sessions.drop(session, stream, 0.5)
    assert sessions.resume(W1, "a", 1.0) is None
    assert sessions.replace(W1, "a") == WorkerDisconnected(W1, "it did not receive Registered", clean=False)
    assert sessions.replace(W1, "a") is None
    assert sessions.open(REGISTER, "a", 1.0)[1] == WorkerConnected(W1, REGISTER)


def test_another_session_of_the_same_worker_replaces_the_one_before() -> None:
    sessions, session, stream = joined()
    assert sessions.refusal(REGISTER, "b", 1.0) is None
    assert sessions.resume(W1, "b", 1.0) is None
    assert sessions.replace(W1, "b") == WorkerDisconnected(W1, "it was started anew", clean=False)
    # what is sent to the worker on that loss has no session, so the next one does not carry it
    assert sessions.of(W1) is None
    assert stream.woken == 1
    second, _ = sessions.open(REGISTER, "b", 1.0)
    # a late frame and the late end of the old stream concern nobody
    assert sessions.lose(session, "again") is None
    assert sessions.drop(session, stream, 2.0) is None
    assert sessions.of(W1) is second


def test_a_second_worker_of_the_same_id_is_refused_while_the_first_one_lives() -> None:
    sessions, session, stream = joined()
    other = replace(REGISTER, pid=REGISTER.pid + 1)
    refused = sessions.refusal(other, "b", 3.9)
    assert refused is not None
    assert "is here already" in refused.reason
    # two heartbeats are missing, or its stream is gone: what asks may be its replacement
    assert sessions.refusal(other, "b", 4.0) is None
    sessions.drop(session, stream, 1.0)
    assert sessions.refusal(other, "b", 1.0) is None


def test_a_worker_that_leaves_is_gone_with_its_stream() -> None:
    sessions, session, stream = joined()
    assert sessions.receive(session, frame(1, WorkerLeaving()), 1.0) == WorkerMessage(W1, WorkerLeaving())
    assert stream.woken == 1
    beat = session.next_frame(1.0, 2.0)
    assert beat is not None
    assert beat.acknowledged == 1
    assert sessions.drop(session, stream, 1.1) == WorkerDisconnected(W1, "it has left", clean=True)


def test_a_message_that_is_missing_or_unknown_ends_the_session() -> None:
    sessions, session, _ = joined()
    assert sessions.receive(session, frame(2, down()), 1.0) == WorkerDisconnected(
        W1, "message 1 of its session is missing", clean=False
    )
    sessions, session, _ = joined()
    event = sessions.receive(session, control_pb2.WorkerFrame(number=1), 1.0)
    assert isinstance(event, WorkerDisconnected)


def test_heartbeats_are_due_at_once_and_then_at_their_interval() -> None:
    _, session, _ = joined(10.0)
    assert session.next_frame(10.0, 2.0) == session.frame(Heartbeat())
    assert session.next_frame(11.9, 2.0) is None
    assert session.until_beat_s(11.5) == 0.5
    assert session.next_frame(12.5, 2.0) == session.frame(Heartbeat())
    assert session.until_beat_s(15.0) == 0.0


def test_all_end_without_an_event_when_the_server_closes() -> None:
    sessions, session, stream = joined()
    session.send(KillSlot("a"))
    sessions.close()
    assert session.over
    assert stream.woken == 2
    assert silent(sessions, 99.0) == []


@weighted(4)
@given(st.lists(st.sampled_from(["send", "carry", "drop", "report", "repeat"]), max_size=60))
def test_whatever_drops_each_message_passes_once_and_in_order_both_ways(steps: list[str]) -> None:
    sessions, session, stream = joined()
    commands: list[ToWorker] = []
    received: list[ToWorker] = []
    reports: list[FromWorker] = []
    events: list[object] = []
    acknowledged = 0
    for step in [*steps, "drop", *["carry"] * 61]:
        match step:
            case "send":
                commands.append(KillSlot(f"s{len(commands)}"))
                session.send(commands[-1])
            case "carry":
                if (sent := session.next_frame(0.0, 1.0)) is not None and sent.number > acknowledged:
                    acknowledged = sent.number
                    received.append(codec.to_worker(sent.message))
            case "report":
                reports.append(down(f"s{len(reports)}"))
                events.append(sessions.receive(session, frame(len(reports), reports[-1], acknowledged), 0.0))
            case "repeat":  # sent again on another stream, because its acknowledgement was lost
                again = frame(len(reports), reports[-1]) if reports else frame(0, Heartbeat())
                assert sessions.receive(session, again, 0.0) is None
            case _:
                session.receive(frame(0, Heartbeat()), 0.0)
                sessions.drop(session, stream, 0.0)
                assert sessions.resume(W1, "a", 0.0) is session
                stream = Stream()
                session.attach(stream, acknowledged, 0.0)
    assert received == commands
    assert events == [WorkerMessage(W1, report) for report in reports]
