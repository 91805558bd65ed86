"""Runs a transcript: commands to a job's machine, one a line, each followed by what the machine asked for.

    # a comment tells the story
    > acked 0 epoch 1          a command: an event, or the passing of time
      write checkpoint 1       what the machine did, printed
      = RUNNING attempt 1      where the job stands then

Records go into a real journal; a coordinator that is restarted reads it. `tests/transcripts/README.md` lists the
commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headrace.checkpoint.journal.journal import Journal, Written
from headrace.checkpoint.journal.records import CommittedRecord, FinishedRecord, Record
from headrace.checkpoint.manifest import CommittableDocument, SplitDocument, SubtaskDocument
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.config import Beginning, JobConfig
from headrace.coordinator.job.journaling import WriteRecord, draft_of, journal_read
from headrace.coordinator.job.machine import Machine
from headrace.core.config import parse_duration_ms
from headrace.core.source_state import SourceState
from headrace.core.text.digest_text import digest_text
from headrace.execution.plan_facts import PlanFacts, no_names
from headrace.rpc.messages import EpochCompleted, Failure
from headrace.spec.settings import Checkpoint, ExponentialDelay, FixedDelay, NoRestart, Restart
from support.control.transcript_words import effect_words, record_words, span

TICKS_MAX = 1_000
SOURCE = "flights"
SINK = "delays"
LANES = 2
ROWS = 10
"""In each committable of a sink whose transactions have names."""


def played(text: str) -> str:
    """The transcript as it should be: its comments and commands, with what they do now."""
    player = Player()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *(f"  {word}" for word in player.play(line[2:].strip()))]
        elif not line.startswith("  "):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Asked:
    """What the machine has asked for and nobody has answered yet, oldest first."""

    reads: list[do.ReadJournal] = field(default_factory=list)
    records: list[WriteRecord] = field(default_factory=list)
    descriptions: list[do.Describe] = field(default_factory=list)
    commits: list[do.Commit] = field(default_factory=list)
    fences: list[do.Fence] = field(default_factory=list)
    savepoints: list[do.WriteSavepoint] = field(default_factory=list)
    slots: list[do.RequestSlots] = field(default_factory=list)


class Player:
    """One job, its journal, and a clock that only `tick` moves."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._journal = Journal()
        self._machine: Machine | None = None
        self._config: JobConfig | None = None
        self._asked = _Asked()
        self._commits = False
        self._names = False
        self._within_ms: int | None = None
        self._prepared: dict[int, list[CommittableDocument]] = {}
        """Slot -> what its writer has prepared and does not know to be committed."""
        self._openings = 0
        self._runs = 0

    def play(self, command: str) -> list[str]:
        """Executes a command; gives what to print below it."""
        words = command.split()
        simple: dict[str, Callable[[list[str]], list[str]]] = {
            "submit": self._submit,
            "running": self._running,
            "tick": self._tick,
            "coordinator": self._coordinator,
            "journal": self._show_journal,
            "unanswered": self._unanswered,
            "another": self._another,
        }
        run = simple.get(words[0])
        if run is not None:
            return run(words[1:])
        return self._handle(self._event(words))

    # ---- commands that are no events -----------------------------------------------------------------------------

    def _submit(self, words: list[str]) -> list[str]:
        about = dict(word.partition("=")[::2] for word in words)
        self._journal, self._now_ms = Journal(), 0
        self._names = "names" in about
        self._commits = "commits" in about or self._names
        self._within_ms = parse_duration_ms(about["within"]) if "within" in about else None
        self._prepared, self._openings = {}, 0
        interval = about.get("interval", "10s")
        checkpoint = Checkpoint.model_validate(
            {
                "interval": interval,
                "timeout": about.get("timeout", "60s"),
                "min_pause": about.get("min_pause", "0s"),
                "tolerable_failures": int(about.get("tolerable", "0")),
            }
        )
        self._config = JobConfig(
            "j1",
            "flights",
            int(about.get("slots", "1")),
            self._plan,
            "1.0",
            checkpoint,
            _restart(about.get("restart")),
            names=_names if self._names else no_names,
        )
        return self._take(self._config)

    def _running(self, words: list[str]) -> list[str]:
        """A job as `submit` makes it, already RUNNING: what happens before is told elsewhere."""
        self._submit(words)
        assert self._config is not None, "a job was submitted"
        slots = self._config.parallelism
        opening = ["tick", "read", f"host opened {SOURCE}:{slots}", "granted", "written"]
        for command in [*opening, *(f"deployed {index}" for index in range(slots))]:
            self.play(command)
        return [self._standing()]

    def _coordinator(self, words: list[str]) -> list[str]:
        """A coordinator that knows nothing but the journal takes the job."""
        assert words == ["starts"], words
        assert self._config is not None, "a job is submitted first"
        return self._take(replace(self._config, beginning=Beginning.RESUMED))

    def _take(self, config: JobConfig) -> list[str]:
        self._runs += 1
        self._asked = _Asked()
        self._machine = Machine(config)
        return [self._standing()]

    def _tick(self, words: list[str]) -> list[str]:
        """Lets time pass; the machine gets its ticks when they are due."""
        until_ms = self._now_ms + (parse_duration_ms(words[0]) if words else 0)
        printed: list[str] = []
        for _ in range(TICKS_MAX):
            due_ms = self._live.due_ms
            if due_ms is None or due_ms > until_ms:
                break
            self._now_ms = max(self._now_ms, due_ms)
            printed += self._effects(on.Tick())
        else:
            raise AssertionError("the machine is due again and again")
        self._now_ms = until_ms
        return [*printed, self._standing()]

    def _show_journal(self, words: list[str]) -> list[str]:
        if words:
            return self._handle(self._event(["journal", *words]))
        return [record_words(record) for record in self._journal.records]

    def _unanswered(self, words: list[str]) -> list[str]:
        """The oldest record asked for stands, but nobody is told."""
        return [f"journal: {record_words(self._put())}"]

    def _another(self, words: list[str]) -> list[str]:
        """Another coordinator writes a record."""
        match words:
            case ["committed", epoch]:
                draft: Record = CommittedRecord(at_ms=self._now_ms, epoch=int(epoch))
            case _:
                assert words == ["canceled"], words
                draft = FinishedRecord(at_ms=self._now_ms, state="CANCELED")
        return [f"journal: {record_words(self._stands(draft, 'another'))}"]

    # ---- events --------------------------------------------------------------------------------------------------

    def _event(self, words: list[str]) -> on.Event:
        match words:
            case ["read"]:
                return journal_read(self._asked.reads.pop(0).ticket, self._journal)
            case ["written"]:
                ticket = self._asked.records[0].ticket
                self._put()
                return on.RecordWritten(ticket)
            case ["granted"]:
                wanted = self._asked.slots.pop()
                return on.SlotsGranted(wanted.attempt, tuple(f"worker-{index}" for index in range(wanted.count)))
            case ["saved"]:
                return on.SavepointWritten(self._asked.savepoints.pop(0).manifest.epoch)
            case ["save", "failed", domain, *text]:
                return on.SavepointFailed(self._asked.savepoints.pop(0).manifest.epoch, _failure(domain, text))
            case ["journal", "failed", "late"]:
                return on.JournalFailed(_failure("external", ["storage", "is", "away"]))
            case ["journal", "failed"]:
                if self._asked.records:
                    del self._asked.records[0]
                else:
                    del self._asked.reads[:1]
                return on.JournalFailed(_failure("external", ["storage", "is", "away"]))
            case _:
                return self._outside_event(words)

    def _outside_event(self, words: list[str]) -> on.Event:
        asked = self._asked
        match words:
            case ["described", *left]:
                described = asked.descriptions.pop(0)
                return on.Described(described.epoch, _with_successors(described.committables, left))
            case ["describe", "failed", domain, *text]:
                return on.DescribeFailed(asked.descriptions.pop(0).epoch, _failure(domain, text))
            case ["committed"]:
                return on.Committed(asked.commits.pop(0).epoch)
            case ["committed", "lost", *numbers]:
                commit = asked.commits.pop(0)
                return on.Committed(commit.epoch, tuple(commit.committables[int(number)] for number in numbers))
            case ["commit", "failed", domain, *text]:
                return on.CommitFailed(asked.commits.pop(0).epoch, _failure(domain, text))
            case ["fenced"]:
                return on.Fenced(asked.fences.pop(0).attempt)
            case ["fence", "failed", domain, *text]:
                return on.FenceFailed(asked.fences.pop(0).attempt, _failure(domain, text))
            case _:
                return self._slot_event(words)

    def _slot_event(self, words: list[str]) -> on.Event:  # noqa: PLR0911 - one line a command
        match words:
            case ["deployed", index]:
                return on.SlotDeployed(int(index))
            case ["acked", index, "epoch", epoch]:
                return on.SlotAcked(int(index), int(epoch), (self._document(int(index), int(epoch)),))
            case ["declined", index, "epoch", epoch]:
                return on.SlotDeclined(int(index), int(epoch), _failure("external", ["storage", "is", "full"]))
            case ["lost", index]:
                return on.SlotFailed(int(index), _failure("external", ["worker", "is", "lost"]))
            case ["failed", index, domain, *text]:
                return on.SlotFailed(int(index), _failure(domain, text))
            case ["cause", attempt, domain, *text]:
                return on.CauseFound(int(attempt), _failure(domain, text))
            case ["input", "ended", index]:
                return on.SlotInputEnded(int(index))
            case ["released"]:
                return on.SlotsReleased()
            case ["host", "opened", splits]:
                found, final = _splits(splits), splits.endswith("!")
                looks = {SOURCE: None if final else 60_000}
                self._openings += 1
                begins = {SINK: {"opening": self._openings}} if self._names else {}
                return on.ConnectorHostOpened({SOURCE: found}, looks, frozenset({SOURCE} if final else ()), begins)
            case ["host", "failed"]:
                return on.ConnectorHostFailed(_failure("external", ["the", "host", "died"]))
            case ["host", "refused"]:
                return on.ConnectorHostFailed(_failure("external", ["no", "broker", "answers"]), refused=True)
            case ["found", splits]:
                return on.SplitsFound(SOURCE, _splits(splits))
            case _:
                return _user_event(words)

    def _handle(self, event: on.Event) -> list[str]:
        return [*self._effects(event), self._standing()]

    def _effects(self, event: on.Event) -> list[str]:
        effects = self._live.handle(event, self._now_ms)
        for effect in effects:
            self._remember(effect)
        return [effect_words(effect) for effect in effects]

    def _remember(self, effect: do.Effect) -> None:
        match effect:
            case do.ReadJournal():
                self._asked.reads.append(effect)
            case (
                do.WriteAttempt() | do.WriteCheckpoint() | do.WriteCommitted() | do.WriteStopping() | do.WriteFinished()
            ):
                self._asked.records.append(effect)
            case do.Describe():
                self._asked.descriptions.append(effect)
            case do.Commit():
                self._asked.commits.append(effect)
            case do.Fence():
                self._asked.fences.append(effect)
            case do.DeploySlots():
                self._prepared = {}
            case do.SendAll(EpochCompleted(epoch)):
                for slot, held in self._prepared.items():
                    self._prepared[slot] = [item for item in held if item.epoch > epoch]
            case do.WriteSavepoint():
                self._asked.savepoints.append(effect)
            case do.RequestSlots():
                self._asked.slots.append(effect)
            case _:
                pass

    # ---- inside --------------------------------------------------------------------------------------------------

    @property
    def _live(self) -> Machine:
        assert self._machine is not None, "a job is submitted first"
        return self._machine

    def _put(self) -> Record:
        return self._stands(draft_of(self._asked.records.pop(0), self._now_ms), f"run-{self._runs}")

    def _stands(self, draft: Record, writer: str) -> Record:
        put = self._journal.next(draft, writer)
        verdict = self._journal.on_put(put, None, ())
        assert isinstance(verdict, Written), verdict
        self._journal = verdict.journal
        return put

    def _plan(self, parallelism: int) -> PlanFacts:
        return PlanFacts(
            plan_hash=f"plan-{parallelism}",
            slots=parallelism,
            max_parallelism=128,
            sources={SOURCE: parallelism},
            nodes={SOURCE: "source", SINK: "sink"},
            parallelism={SOURCE: parallelism, SINK: parallelism},
            timed=frozenset({SOURCE}),
            commit_within_ms=self._within_ms,
        )

    def _document(self, index: int, epoch: int) -> SubtaskDocument:
        held = self._prepared.setdefault(index, [])
        if self._commits:
            held.append(self._committable(index, epoch))
        return SubtaskDocument(task=SOURCE, subtask=index, sources={SOURCE: SourceState()}, committables=tuple(held))

    def _committable(self, index: int, epoch: int) -> CommittableDocument:
        """What a writer prepares: under the first of its names that is free, where it has names."""
        plain = CommittableDocument(sink=SINK, subtask=index, epoch=epoch, payload={})
        if not self._names:
            return plain
        held = {item.name for item in self._prepared[index]}
        own = (_name(self._live.job.attempt, index, lane) for lane in range(LANES + 1))
        name = next(name for name in own if name not in held)
        return plain.model_copy(update={"name": name, "rows": ROWS, "digest": digest_text(epoch)})

    def _standing(self) -> str:
        machine = self._live
        due = "" if machine.due_ms is None else f", due in {span(max(machine.due_ms - self._now_ms, 0))}"
        about = f": {machine.view.message}" if machine.view.message else ""
        return f"= {machine.state.value}, attempt {machine.job.attempt}{due}{about}"


def _stop(request: str, options: list[str]) -> on.StopAsked:
    bound = next((each.partition("=")[2] for each in options if each.startswith("within=")), None)
    folder = next((each for each in options if "://" in each), None)
    within_ms = None if bound is None else parse_duration_ms(bound)
    return on.StopAsked(request, folder, drain="drain" in options, within_ms=within_ms)


def _user_event(words: list[str]) -> on.Event:
    match words:
        case ["savepoint", request, folder]:
            return on.SavepointAsked(request, folder)
        case ["checkpoint", request]:
            return on.SavepointAsked(request, "")
        case ["stop", request, *options]:
            return _stop(request, options)
        case ["cancel", request]:
            return on.CancelAsked(request)
        case ["rescale", request, parallelism]:
            return on.RescaleAsked(request, int(parallelism))
        case ["leaving", index]:
            return on.SlotLeaving(int(index), f"worker-{index}")
        case ["suspend"]:
            return on.Suspend("the coordinator ends")
        case ["replaced"]:
            return on.Replaced("another coordinator goes on")
        case _:
            raise AssertionError(f"unknown command: {' '.join(words)}")


def _name(attempt: int, index: int, lane: int) -> str:
    return f"{SINK}-{attempt}-{index}-{lane}"


def _names(parallelism: int, attempt: int) -> dict[str, tuple[str, ...]]:
    """Those of all slots."""
    return {SINK: tuple(_name(attempt, index, lane) for index in range(parallelism) for lane in range(LANES))}


def _with_successors(items: tuple[CommittableDocument, ...], left: list[str]) -> tuple[CommittableDocument, ...]:
    """As a committer describes them; the names `left` are left for others."""
    assert {item.name for item in items} >= set(left), "a name that is left was used"
    return tuple(
        item.model_copy(update={"successor": f"{item.name}+"}) if item.name in left else item for item in items
    )


def _restart(text: str | None) -> Restart:
    """`none`, `3x` (times, a second apart), or the default."""
    if text is None:
        return ExponentialDelay()
    return NoRestart() if text == "none" else FixedDelay(attempts=int(text.removesuffix("x")), delay_ms=1_000)


def _splits(text: str) -> tuple[SplitDocument, ...]:
    """`flights:2` (partitions 0 and 1), `flights:2!` (and no others will come)."""
    topic, _, count = text.rstrip("!").partition(":")
    return tuple(SplitDocument(topic=topic, partition=partition, start=0) for partition in range(int(count)))


def _failure(domain: str, text: list[str]) -> Failure:
    return Failure(" ".join(text), domain, retry=domain != "user")
