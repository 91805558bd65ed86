"""The attempt machine: transition by transition, then any order of events."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.rpc.messages import (
    Acked,
    AssignSplits,
    CancelSlot,
    Declined,
    Deploy,
    Deployed,
    EpochAborted,
    EpochCompleted,
    Failed,
    Failure,
    FinishSlot,
    FromSlot,
    InputEnded,
    Left,
    LimitTime,
    RelayHeights,
    Renamed,
    TriggerEpoch,
)
from headrace.worker.control import Assign, Complete, Limit, Relay, Trigger
from headrace.worker.slot.attempt.effects import (
    CancelSubtasks,
    CloseLinks,
    CloseParts,
    CommandAllSources,
    CommandSources,
    Connect,
    Effect,
    FinishSubtasks,
    FreeNames,
    GiveUpEpoch,
    JoinSubtasks,
    LoadPlan,
    OpenSubtasks,
    OrderEpoch,
    RemoveFolder,
    ReportStatus,
    Send,
    StartSubtasks,
    StopUploader,
    Warn,
)
from headrace.worker.slot.attempt.events import (
    Broken,
    Connected,
    EffectFailed,
    Event,
    PartsClosed,
    Planned,
    SubtasksJoined,
    SubtasksOpened,
    TaskEnded,
    Tick,
    UploaderJoined,
)
from headrace.worker.slot.attempt.machine import AttemptMachine, Phase

GRACE_MS = 30_000
REPORT_MS = 500
DEPLOY = Deploy("j", 3, "token", b"{}")
BROKEN, OTHER = Failure("row 17", "user", retry=False), Failure("no room", "external", retry=True)
ACKED = Acked("j", 3, 7, b"[]", 5, 6, b"")
DECLINED = Declined("j", 3, 7, OTHER)
NOTHING = ReportStatus(frozenset())
DUE = ReportStatus(frozenset(), due=True)
LEAVING: list[Effect] = [CancelSubtasks(), JoinSubtasks(GRACE_MS)]


def at(phase: Phase) -> AttemptMachine:
    """A machine that has come so far, at 0 ms."""
    machine = AttemptMachine(GRACE_MS)
    way: dict[Phase, Event] = {
        Phase.LOADING: DEPLOY,
        Phase.CONNECTING: Planned(("read", "count"), REPORT_MS),
        Phase.OPENING: Connected(),
        Phase.RUNNING: SubtasksOpened(),
        Phase.FINISHING: FinishSlot(),
    }
    for name, event in way.items():
        if machine.phase is not phase:
            machine.handle(event, 0)
            assert machine.phase is name
    return machine


def leave(machine: AttemptMachine, *, late: tuple[str, ...] = (), upload_late: bool = False) -> list[Effect]:
    """From CANCELLING to the last list of effects."""
    machine.handle(SubtasksJoined(late), 0)
    machine.handle(UploaderJoined(upload_late), 0)
    return machine.handle(PartsClosed(()), 0)


# ---- opening ---------------------------------------------------------------------------------------------------------


def test_an_attempt_opens_step_by_step() -> None:
    machine = AttemptMachine(GRACE_MS)
    assert machine.handle(CancelSlot(), 0) == []  # of an attempt that never began here
    assert machine.handle(DEPLOY, 0) == [LoadPlan(DEPLOY)]
    assert machine.handle(Planned(("read",), REPORT_MS), 0) == [Connect()]
    assert machine.handle(Connected(), 0) == [OpenSubtasks()]
    assert machine.due_ms is None
    assert machine.handle(SubtasksOpened(), 10) == [StartSubtasks(), Send(Deployed("j", 3)), NOTHING]
    assert machine.phase is Phase.RUNNING
    assert machine.due_ms == 10 + REPORT_MS


def test_a_slot_that_cannot_read_its_first_command_ends() -> None:
    machine = AttemptMachine(GRACE_MS)
    assert machine.handle(Broken(BROKEN), 0) == [Warn("no Deploy was received: row 17"), *LEAVING]
    assert leave(machine)[-1] == Send(Failed("", 0, BROKEN))
    assert not machine.clean


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.CONNECTING, Phase.OPENING])
def test_a_cancel_takes_effect_before_the_next_step(phase: Phase) -> None:
    machine = at(phase)
    assert machine.handle(CancelSlot(), 0) == LEAVING
    # the step that was under way is done now; nothing follows from it
    assert machine.handle(Planned(("read",), REPORT_MS), 0) == []
    assert machine.handle(Connected(), 0) == []
    assert machine.handle(SubtasksOpened(), 0) == []
    assert leave(machine)[-1] == Send(Left("j", 3))
    assert machine.clean


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.CONNECTING, Phase.OPENING])
def test_a_step_that_fails_is_the_attempts_failure(phase: Phase) -> None:
    machine = at(phase)
    assert machine.handle(EffectFailed(BROKEN), 0) == LEAVING
    assert leave(machine)[-1] == Send(Failed("j", 3, BROKEN))
    assert not machine.clean


def test_a_lost_peer_is_why_the_step_that_it_interrupts_fails() -> None:
    machine = at(Phase.OPENING)
    assert machine.handle(Broken(BROKEN), 0) == []
    assert machine.handle(EffectFailed(OTHER), 0) == LEAVING
    assert leave(machine)[-1] == Send(Failed("j", 3, BROKEN))


def test_what_comes_while_an_attempt_opens_is_dealt_with_once_it_is_open() -> None:
    machine = at(Phase.CONNECTING)
    assert machine.handle(TriggerEpoch(7, "", stop=False, drain=False), 0) == []
    assert machine.handle(Broken(BROKEN), 0) == []
    assert machine.handle(TriggerEpoch(8, "", stop=False, drain=False), 0) == []
    machine.handle(Connected(), 0)
    trigger = CommandAllSources(Trigger(7))
    assert machine.handle(SubtasksOpened(), 0) == [
        StartSubtasks(),
        Send(Deployed("j", 3)),
        NOTHING,
        OrderEpoch(7, ""),
        trigger,
        *LEAVING,
    ]


# ---- running ---------------------------------------------------------------------------------------------------------


def test_commands_reach_sources_writers_and_the_uploader() -> None:
    machine = at(Phase.RUNNING)
    assigned = CommandSources({"s": Assign((), final=True, emitted=5)})
    assert machine.handle(AssignSplits("s", b"[]", final=True, emitted=5), 0) == [assigned]
    assert machine.handle(RelayHeights({"s": 4, "t": None}), 0) == [CommandSources({"s": Relay(4), "t": Relay(None)})]
    assert machine.handle(LimitTime({"s": 9}), 0) == [CommandSources({"s": Limit(9)})]
    trigger = TriggerEpoch(7, "folder", stop=True, drain=True)
    told = CommandAllSources(Trigger(7, stop=True, drain=True))
    # the uploader first: the barrier may be back before it is told otherwise
    assert machine.handle(trigger, 0) == [OrderEpoch(7, "folder"), told]
    completed = EpochCompleted(7, (Renamed("a", "b"),))
    assert machine.handle(completed, 0) == [FreeNames(7, {"a": "b"}), CommandAllSources(Complete(7))]
    assert machine.handle(EpochAborted(8), 0) == [GiveUpEpoch(8)]
    assert machine.phase is Phase.RUNNING


def test_splits_that_cannot_be_read_fail_the_attempt() -> None:
    machine = at(Phase.RUNNING)
    assert machine.handle(AssignSplits("s", b"no json", final=True), 0) == LEAVING
    (last,) = [each for each in leave(machine) if isinstance(each, Send)]
    assert isinstance(last.message, Failed)
    assert last.message.failure.domain == "internal"


def test_a_second_deployment_fails_the_attempt() -> None:
    machine = at(Phase.RUNNING)
    assert machine.handle(DEPLOY, 0) == LEAVING
    (last,) = [each for each in leave(machine) if isinstance(each, Send)]
    assert isinstance(last.message, Failed)
    assert last.message.failure.message == "a slot is deployed to once"


def test_the_input_has_ended_when_every_task_has() -> None:
    machine = at(Phase.RUNNING)
    assert machine.handle(TaskEnded("read"), 0) == []
    report = ReportStatus(frozenset({"read", "count"}))
    assert machine.handle(TaskEnded("count"), 0) == [report, Send(InputEnded("j", 3))]


@pytest.mark.parametrize("word", [ACKED, DECLINED])
def test_the_counts_of_an_epoch_are_known_before_it_is(word: Acked | Declined) -> None:
    assert at(Phase.RUNNING).handle(word, 0) == [NOTHING, Send(word)]


def test_a_report_that_is_due_comes_before_the_event() -> None:
    machine = at(Phase.RUNNING)
    assert machine.handle(Tick(), REPORT_MS - 1) == []
    assert machine.handle(Tick(), REPORT_MS) == [DUE]
    assert machine.due_ms == 2 * REPORT_MS
    assert machine.handle(EpochAborted(8), 2 * REPORT_MS + 3) == [DUE, GiveUpEpoch(8)]
    assert machine.due_ms == 3 * REPORT_MS + 3


# ---- leaving ---------------------------------------------------------------------------------------------------------


def test_an_attempt_that_finishes_cancels_nothing() -> None:
    machine = at(Phase.RUNNING)
    assert machine.handle(FinishSlot(), 0) == [FinishSubtasks(), JoinSubtasks(GRACE_MS)]
    assert machine.handle(SubtasksJoined(()), 0) == [CloseLinks(), StopUploader(GRACE_MS)]
    assert machine.handle(UploaderJoined(late=False), 0) == [CloseParts()]
    assert machine.handle(PartsClosed(()), 0) == [RemoveFolder(), Send(Left("j", 3))]
    assert machine.phase is Phase.LEFT
    assert machine.due_ms is None
    assert machine.clean


def test_threads_that_do_not_finish_are_cancelled() -> None:
    machine = at(Phase.FINISHING)
    assert machine.handle(SubtasksJoined(("count-0",)), 0) == LEAVING
    assert leave(machine)[-1] == Send(Left("j", 3))
    assert machine.clean


def test_a_thread_that_does_not_let_go_leaves_the_process_unclean() -> None:
    machine = at(Phase.FINISHING)
    machine.handle(SubtasksJoined(("count-0",)), 0)
    assert leave(machine, late=("count-0",))[-1] == Send(Left("j", 3))
    assert not machine.clean


def test_an_uploader_that_does_not_let_go_leaves_the_process_unclean() -> None:
    machine = at(Phase.RUNNING)
    machine.handle(CancelSlot(), 0)
    assert leave(machine, upload_late=True)[-1] == Send(Left("j", 3))
    assert not machine.clean


def test_a_part_that_does_not_close_changes_no_outcome() -> None:
    machine = at(Phase.FINISHING)
    machine.handle(SubtasksJoined(()), 0)
    machine.handle(UploaderJoined(late=False), 0)
    warning = Warn("j: while it was closed: OSError: gone")
    assert machine.handle(PartsClosed(("OSError: gone",)), 0) == [warning, RemoveFolder(), Send(Left("j", 3))]
    assert machine.clean


@pytest.mark.parametrize("event", [Broken(BROKEN), EffectFailed(BROKEN)])
def test_what_breaks_is_said_when_everything_has_ended(event: Event) -> None:
    machine = at(Phase.RUNNING)
    assert machine.handle(event, 0) == LEAVING
    # the others break for that reason, and the coordinator cancels: the first failure is the attempt's
    assert machine.handle(Broken(OTHER), 0) == []
    assert machine.handle(CancelSlot(), 0) == []
    assert leave(machine)[-1] == Send(Failed("j", 3, BROKEN))
    assert not machine.clean


def test_what_breaks_after_a_command_to_leave_is_no_failure() -> None:
    machine = at(Phase.FINISHING)
    assert machine.handle(Broken(BROKEN), 0) == []
    assert leave(machine)[-1] == Send(Left("j", 3))


def test_leaving_that_fails_is_said_at_once() -> None:
    machine = at(Phase.FINISHING)
    said = machine.handle(EffectFailed(BROKEN), 0)
    assert said == [Warn("j: leaving attempt 3: row 17"), Send(Failed("j", 3, BROKEN))]
    assert machine.phase is Phase.LEFT
    assert not machine.clean
    # the word itself may be what failed
    assert machine.handle(EffectFailed(OTHER), 0) == []


# ---- any order -------------------------------------------------------------------------------------------------------

OPENING: dict[type[Effect], Event] = {
    LoadPlan: Planned(("read", "count"), REPORT_MS),
    Connect: Connected(),
    OpenSubtasks: SubtasksOpened(),
}
ARRIVALS: list[Event] = [
    Tick(),
    ACKED,
    DECLINED,
    TriggerEpoch(7, "", stop=False, drain=False),
    EpochAborted(7),
    EpochCompleted(7),
    AssignSplits("s", b"[]", final=True),
    RelayHeights({}),
    Broken(BROKEN),
    FinishSlot(),
    CancelSlot(),
]


class Shell:
    """Executes effects as `slot_runtime` does; what they take, and whether they fail, is drawn."""

    def __init__(self, data: st.DataObject) -> None:
        self.machine = AttemptMachine(GRACE_MS)
        self.words: list[FromSlot] = []
        self.effects: list[Effect] = []
        self.commanded = False
        self._draw = data.draw
        self._queue: list[Event] = [DEPLOY]
        self._tasks = ["read", "count"]

    def run(self, arrivals: list[Event]) -> None:
        """Events arrive between others; a cancel is the last, and after it the attempt ends."""
        waiting = [*arrivals, CancelSlot()]
        while self.machine.phase is not Phase.LEFT:
            if waiting and (not self._queue or self._draw(st.booleans())):
                self._queue.append(waiting.pop(0))
            assert self._queue, "the attempt waits for nothing, but has not ended"
            self._handle(self._queue.pop(0))
        for event in ARRIVALS:
            assert self.machine.handle(event, 10**6) == []

    def _handle(self, event: Event) -> None:
        self.commanded = self.commanded or isinstance(event, CancelSlot | FinishSlot)
        for effect in self.machine.handle(event, len(self.effects) * 100):
            self.effects.append(effect)
            if self._draw(st.integers(0, 30)) == 0:
                self._handle(EffectFailed(OTHER))
                return
            self._execute(effect)

    def _execute(self, effect: Effect) -> None:
        late = ("count-0",) if self._draw(st.booleans()) else ()
        match effect:
            case Send(word):
                self.words.append(word)
            case StartSubtasks():
                self._queue += [TaskEnded(task) for task in self._tasks if self._draw(st.booleans())]
            case LoadPlan() | Connect() | OpenSubtasks():
                self._queue.append(OPENING[type(effect)])
            case JoinSubtasks():
                self._queue.append(SubtasksJoined(late))
            case StopUploader():
                self._queue.append(UploaderJoined(bool(late)))
            case CloseParts():
                self._queue.append(PartsClosed(late))
            case _:
                pass


@given(st.lists(st.sampled_from(ARRIVALS), max_size=8), st.data())
def test_whatever_happens_an_attempt_ends_with_one_last_word(arrivals: list[Event], data: st.DataObject) -> None:
    shell = Shell(data)
    shell.run(arrivals)
    kinds = [type(word) for word in shell.words]
    last = [kind for kind in kinds if kind in {Left, Failed}]
    # the last word itself may be what failed
    assert len(last) <= 1
    assert not last or kinds[-1] is last[0]
    assert kinds.count(Deployed) <= 1
    assert kinds.count(InputEnded) <= 1
    if kinds[:-1]:
        assert kinds[0] is Deployed
    if Left in kinds:
        assert shell.commanded
        assert shell.effects[-1] == Send(Left("j", 3))
        # every thread was waited for before
        steps = [type(each) for each in shell.effects if isinstance(each, JoinSubtasks | StopUploader | CloseParts)]
        assert steps[-3:] == [JoinSubtasks, StopUploader, CloseParts]
    if shell.machine.clean:
        assert last in ([], [Left])
