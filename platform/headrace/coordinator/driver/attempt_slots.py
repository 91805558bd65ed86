"""The slots of a job's attempt, from their grant by the fleet to their release.

Slot i of an attempt receives subtask i of every task that has more than i subtasks. So the attempt needs as many slots
as its widest task has subtasks, and events identify a slot by this index.

Implements the fleet's `SlotHolder`: it translates the slots' messages into events of the job's machine, and decides
nothing. It belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from pydantic import ValidationError

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, StateHandle, learned_of, located
from headrace.checkpoint.own_handles import own_handles
from headrace.coordinator.driver.job_setup import JobSetup
from headrace.coordinator.figures.checkpoint_log import CheckpointLog
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.provisioning.slot_pool import PooledSlot
from headrace.core.errors import Domain
from headrace.rpc import codec, messages
from headrace.rpc.deployment import Deployment, PeerDocument
from headrace.rpc.failure import failure_of
from headrace.rpc.figures import SUBTASK_BARRIERS
from headrace.rpc.status import SlotStatus

LOG = logging.getLogger("headrace.coordinator")


class AttemptSlots:
    """The slots that one job holds now.

    slots            by index, once they are granted; granted_for: the attempt that they were granted for
    statuses         the last status message of each slot, by index
    figures          the figures in their status messages; checkpoints: the job's, of all attempts
    deployed         deployments were sent to the slots: their processes must exit, and cannot be granted again
    suspects_files   a slot failed to restore, and a retry cannot help: a state file may be corrupt although it has the
                     right size
    """

    def __init__(
        self, setup: JobSetup, fleet: Fleet, post: Callable[[on.Event], None], is_deploying: Callable[[], bool]
    ) -> None:
        """`post`: queues an event for the machine. `is_deploying`: whether the job is DEPLOYING."""
        self._setup = setup
        self._job = setup.config.job
        self._fleet = fleet
        self._post = post
        self._is_deploying = is_deploying
        self.slots: tuple[PooledSlot, ...] = ()
        self.granted_for = 0
        self._ended: frozenset[str] = frozenset()
        """The names of slots that were released last, which may still tell what ended the attempt."""
        self.statuses: dict[int, SlotStatus] = {}
        self.figures = JobFigures()
        self.checkpoints = CheckpointLog()
        self.deployed = False
        self.suspects_files = False

    def granted(self, attempt: int, slots: tuple[PooledSlot, ...]) -> None:
        """Called when the fleet has granted slots to the attempt."""
        self.slots, self.granted_for, self.deployed = slots, attempt, False
        self.statuses, self.figures = {}, JobFigures()
        self._post(on.SlotsGranted(attempt, tuple(slot.worker for slot in slots)))

    def deploy(self, wanted: do.DeploySlots) -> None:
        """Sends each slot its deployment."""
        setup, config = self._setup, self._setup.config
        token = secrets.token_hex(16)
        restore: tuple[StateHandle, ...] = ()
        if wanted.restore is not None:
            # slots name files with relative paths again, and those of `claimed`; an origin's are absolute already
            reused = wanted.own and wanted.reused
            restore = (wanted.restore if reused else located(wanted.restore, setup.storage)).states
        addresses = [slot.info.address for slot in self.slots]
        peers = tuple(
            PeerDocument(index=index, host=each.host, port=each.port, unix_path=each.unix_path)
            for index, each in enumerate(addresses)
        )
        # A floor is the watermark that was assigned to a partition while it was idle, from a position on. Every floor
        # that took effect is sent to all later attempts: if they read the rows behind that position again, after a
        # restore or in a replay, they must judge the same rows as late.
        applied = () if wanted.restore is None else tuple(f for s in wanted.restore.sources.values() for f in s.applied)
        facts = config.plan(wanted.parallelism)
        common = {
            "pipeline": setup.plans.file_form(wanted.parallelism),
            "plan_hash": facts.plan_hash,
            "slots": len(self.slots),
            "peers": peers,
            "storage": setup.storage,
            "claimed": setup.claimed if setup.claimed is not None and wanted.reused else "",
            "floors": (*setup.floors, *applied),
            "code": setup.code,
            "python_path": setup.python_path,
            "mode": config.checkpoint.mode,
            "hand_over": config.keeps_time_open,
            "formats": learned_of(wanted.formats),
        }
        self.deployed = True
        for index, slot in enumerate(self.slots):
            own = own_handles(restore, index, parallelism=facts.parallelism, max_parallelism=facts.max_parallelism)
            body = Deployment(slot=index, restore=own, **common).model_dump_json().encode()  # type: ignore[arg-type]
            self._fleet.send(slot, messages.Deploy(self._job, wanted.attempt, token, body))

    async def retire(self) -> None:
        """Waits until the slots of a finished job have exited; kills those that do not exit in time."""
        await self._fleet.retire(self._job, self.granted_for, self.slots, cancel=False)

    async def release(self, earlier: tuple[asyncio.Task[None], ...]) -> None:
        """Ends the attempt's slots. Posts SlotsReleased once they, and those of `earlier` releases, have exited."""
        self._fleet.cancel_request(self._job)
        slots, attempt = self.slots, self.granted_for
        self.slots, self._ended = (), frozenset(each.slot for each in slots)
        if slots and self.deployed:
            await self._fleet.retire(self._job, attempt, slots, cancel=True)
        elif slots:
            # nothing was deployed to these slots, so other jobs can have them
            self._fleet.give_back(self._job, attempt)
        # slots of an earlier attempt may take longer to exit, and SlotsReleased means that no slot of the job is left
        if earlier:
            await asyncio.wait(earlier)
        self._post(on.SlotsReleased())

    def slot_lost(self, attempt: int, slot: str, failure: messages.Failure) -> None:
        """Called when one of the attempt's slots is gone."""
        index = self._index(slot)
        if index is not None and attempt == self.granted_for:
            self._post(on.SlotFailed(index, failure))
        elif slot in self._ended and attempt == self.granted_for and failure.domain != Domain.EXTERNAL:
            self._post(on.CauseFound(attempt, failure))

    def slot_leaving(self, attempt: int, slot: str, worker: str) -> None:
        """Called when the worker of one of the attempt's slots is going to end."""
        index = self._index(slot)
        if index is not None and attempt == self.granted_for:
            self._post(on.SlotLeaving(index, worker))

    def slot_message(self, slot: str, payload: bytes) -> None:
        """Receives an encoded FromSlot message of one of the attempt's slots. Drops messages of other attempts."""
        index = self._index(slot)
        if index is None:
            return
        try:
            message = codec.from_slot(payload)
            # a slot of an earlier attempt may still send: the machine must never see its events
            if message.job == self._job and message.attempt == self.granted_for:
                self._on_message(index, message)
        except ValidationError as error:
            # the error must not be raised into the worker's stream: the coordinator would lose the worker with all of
            # its slots because of one message
            text = f"its report cannot be read, so another version of headrace runs there: {error}"
            failure = messages.Failure(text, Domain.EXTERNAL.value, retry=True)
            self._post(on.SlotFailed(index, self._placed(failure, index)))
        except Exception as error:
            LOG.exception("job %s: a report of slot %s cannot be used", self._job, slot)
            self._post(on.SlotFailed(index, self._placed(failure_of(error), index)))

    def _on_message(self, index: int, message: messages.FromSlot) -> None:
        match message:
            case messages.Deployed():
                self._post(on.SlotDeployed(index))
            case messages.Failed(failure=failure):
                if self._is_deploying() and failure.domain == Domain.EXTERNAL and not failure.retry:
                    self.suspects_files = True
                self._post(on.SlotFailed(index, self._placed(failure, index)))
            case messages.InputEnded():
                self._post(on.SlotInputEnded(index))
            case messages.Acked(epoch=epoch, subtasks=subtasks, figures=figures):
                barriers = SUBTASK_BARRIERS.validate_json(figures) if figures else ()
                self.checkpoints.acknowledge(index, epoch, self.slots[index].worker, barriers)
                self._post(on.SlotAcked(index, epoch, SUBTASK_DOCUMENTS.validate_json(subtasks)))
            case messages.Declined(epoch=epoch, failure=failure):
                self._post(on.SlotDeclined(index, epoch, self._placed(failure, index)))
            case messages.Status(status=status):
                self.statuses[index] = SlotStatus.model_validate_json(status)
                self.figures.take(index, self.statuses[index])
                self._post(on.SlotReported(index, self.statuses[index]))
            case messages.Left():
                pass
            case _:
                assert_never(message)

    def _placed(self, failure: messages.Failure, index: int) -> messages.Failure:
        return failure if failure.worker else replace(failure, worker=self.slots[index].worker)

    def _index(self, slot: str) -> int | None:
        return next((index for index, each in enumerate(self.slots) if each.slot == slot), None)
