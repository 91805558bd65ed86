"""Lists the open transactions of a job, and ends those for which that is safe: the shell around `transaction_safety`.

journal ─> JobStanding ───────────────┐
connector host ─> open transactions ──┴─> each is judged ─> response;  on request: commit the decided epoch, or fence
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import JournalReplaced
from headrace.checkpoint.journal.records import CommittedRecord
from headrace.checkpoint.manifest import CommittableDocument
from headrace.checkpoint.stores.opening import open_store
from headrace.client.models import moment
from headrace.client.output_models import EndTransactionsRequest, TransactionInfo, TransactionList
from headrace.connect.sink import OpenTransaction
from headrace.coordinator.connector_host.connector_host import ConnectorHost
from headrace.coordinator.output.job_handle import HeldJob, ToolHosts
from headrace.coordinator.output.transaction_safety import Action, JobStanding, Judgement, Phase, Plan, judged, planned
from headrace.coordinator.rest.service import JobConflictError
from headrace.core.clock import Clock
from headrace.core.text.plural import plural

Found = list[tuple[OpenTransaction, Judgement]]


class JobTransactions:
    """The transactions tool of a coordinator."""

    def __init__(self, hosts: ToolHosts, clock: Clock) -> None:
        self._hosts = hosts
        self._clock = clock

    async def look(self, held: HeldJob) -> TransactionList:
        """Returns the open transactions with their judgements. Raises HeadraceError."""
        async with self._hosts.committers(held) as host:
            found = await self._found(host, await _standing(held))
        return TransactionList(transactions=self._infos(held, found))

    async def end(self, held: HeldJob, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts the transactions for which that is safe. Raises JobConflictError for a running job, or for
        names whose transactions may not be ended.
        """
        if held.phase is Phase.LIVE:
            raise JobConflictError(
                f"job {held.job} ({held.name}) is {held.state}: it commits and aborts its transactions itself",
                remedy="look with `headrace transactions list`; stop or cancel the job first",
            )
        async with self._hosts.committers(held) as host:
            standing = await _standing(held)
            found = await self._found(host, standing)
            wanted = Action.COMMIT if request.action == "commit" else Action.ABORT
            plan = planned(wanted, found, request.names, force=request.force)
            _require_all(plan, found, request)
            if wanted is Action.COMMIT:
                return await self._commit(held, host, standing, found, plan, request)
            return await self._abort(held, host, found, plan, request)

    async def _commit(
        self,
        held: HeldJob,
        host: ConnectorHost,
        standing: JobStanding,
        found: Found,
        plan: Plan,
        request: EndTransactionsRequest,
    ) -> TransactionList:
        items = _items(standing, plan, request.names)
        if not items:
            return TransactionList(transactions=self._infos(held, found), note="nothing is to be committed")
        if not request.yes:
            note = f"{plural(len(items), 'transaction')} would be committed; --yes does it"
            return TransactionList(transactions=self._infos(held, found), note=note)
        lost = {each.name for each in await host.commit(standing.epoch or 0, items)}
        done = {item.name: "lost" if item.name in lost else "committed" for item in items}
        note = f"committed {plural(len(items) - len(lost), 'transaction')}"
        whole = standing.epoch is not None and not lost and not request.names
        if lost:
            note += f"; lost {plural(len(lost), 'transaction')}: expired before, its rows never become visible"
        elif whole and held.phase is Phase.ENDED:
            assert standing.epoch is not None
            await asyncio.to_thread(_record_committed, held, standing.epoch, self._clock.now_ms())
            note += f"; the journal says now that checkpoint {standing.epoch} is"
        return TransactionList(transactions=self._infos(held, found, done), note=note)

    async def _abort(
        self, held: HeldJob, host: ConnectorHost, found: Found, plan: Plan, request: EndTransactionsRequest
    ) -> TransactionList:
        if not plan.chosen:
            return TransactionList(transactions=self._infos(held, found), note="nothing may be aborted")
        if not request.yes:
            note = f"{plural(len(plan.chosen), 'transaction')} would be aborted; --yes does it"
            return TransactionList(transactions=self._infos(held, found), note=note)
        await host.fence(plan.names)
        done = {each.name: "aborted" for each in plan.chosen}
        note = f"aborted {plural(len(plan.chosen), 'transaction')}"
        return TransactionList(transactions=self._infos(held, found, done), note=note)

    async def _found(self, host: ConnectorHost, standing: JobStanding) -> Found:
        return [(there, judged(there, standing)) for there in await host.transactions()]

    def _infos(self, held: HeldJob, found: Found, done: dict[str, str] | None = None) -> tuple[TransactionInfo, ...]:
        now_ms = self._clock.now_ms()
        ended = done or {}
        return tuple(
            transaction_info(there, judgement, state=held.state, now_ms=now_ms, done=ended.get(there.name))
            for there, judgement in found
        )


def transaction_info(
    there: OpenTransaction, judgement: Judgement, *, state: str | None, now_ms: int, done: str | None = None
) -> TransactionInfo:
    """Returns one open transaction as the API's document. `state`: of its job."""
    return TransactionInfo(
        name=there.name,
        sink=there.sink,
        job_id=there.job,
        job_state=state,
        attempt=there.attempt if there.attempt >= 0 else None,
        subtask=there.subtask if there.subtask >= 0 else None,
        state=there.state,
        started_at=moment(there.started_at_ms) if there.started_at_ms else None,
        age_ms=max(0, now_ms - there.started_at_ms) if there.started_at_ms else None,
        timeout_ms=there.timeout_ms or None,
        holds_back=there.places,
        epoch=judgement.epoch,
        safe=judgement.safe.value,
        by_force=judgement.by_force.value,
        why=judgement.why,
        done=done,  # type: ignore[arg-type]
    )


async def _standing(held: HeldJob) -> JobStanding:
    return JobStanding.of(held.phase, held.state, await asyncio.to_thread(held.journal))


def _items(standing: JobStanding, plan: Plan, names: Sequence[str]) -> tuple[CommittableDocument, ...]:
    """Returns the committables to commit: those of the decided epoch, also if they are visible already, and those of
    committed epochs whose transactions are open and chosen. names: only these; empty: all."""
    wanted = {each.name for each in plan.chosen}
    items = {(item.sink, item.name): item for item in standing.committed if item.name in wanted}
    items |= {
        (item.sink, item.name or str(index)): item
        for index, item in enumerate(standing.decided)
        if not names or item.name in wanted
    }
    return tuple(items.values())


def _require_all(plan: Plan, found: Found, request: EndTransactionsRequest) -> None:
    """Raises JobConflictError for names whose transactions are not open, or may not be ended in the requested way."""
    missing = sorted(set(request.names) - {there.name for there, _ in found})
    if missing:
        raise JobConflictError(f"no transaction of that name is open: {', '.join(missing)}")
    if request.names and plan.refused:
        why = {there.name: judgement.why for there, judgement in found}
        listed = "; ".join(f"{there.name}: {why[there.name]}" for there in plan.refused)
        raise JobConflictError(f"it is not safe to {request.action} {listed}")


def _record_committed(held: HeldJob, epoch: int, now_ms: int) -> None:
    """Writes the `committed` record, so that a later start from this checkpoint finds that its output is committed."""
    journal = JournalStore(open_store(held.storage), "", secrets.token_hex(8))
    waiting = journal.load().uncommitted
    # the journal was just read again: another process may have recorded the commit meanwhile
    if waiting is None or waiting.manifest.epoch != epoch:
        return
    result = journal.append(CommittedRecord(at_ms=now_ms, epoch=epoch))
    if isinstance(result, JournalReplaced):
        raise JobConflictError(f"job {held.job} is written by somebody else: {result.reason}")
