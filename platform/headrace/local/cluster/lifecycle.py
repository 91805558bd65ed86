"""Starts, stops and inspects the cluster of a home. Blocking. Each call that changes something holds the home's lock.

A start reads the record and starts what does not run: the coordinator first, on its old ports, because workers that
stayed keep dialling them. If a start fails, the processes that it started are ended again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.client.cluster_models import ClusterInfo
from headrace.client.discovery import cluster_folder, coordinator_file, own_clusters, record_file, token_file
from headrace.client.token_files import ensure_token
from headrace.client.yarn_clusters import APPLICATION, yarn_clusters
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.core.settings import Home
from headrace.core.text.plural import plural
from headrace.local.cluster.commands import (
    PAGE_NAME,
    SLOT_ROLE,
    coordinator_command,
    coordinator_marks,
    environment,
    log_file,
    page_command,
    page_marks,
    worker_command,
    worker_marks,
)
from headrace.local.cluster.own_client import coordinator_client
from headrace.local.cluster.record import (
    ClusterRecord,
    ClusterStatus,
    Election,
    Member,
    locked,
    read_record,
    write_record,
)
from headrace.processes.detached import ModuleCommand, Surroundings
from headrace.processes.marked_process import MarkedProcess, command_line, start_module
from headrace.processes.ports import free_port, is_free
from headrace.tls.files import TlsFiles

START_SECONDS = 180.0
"""A process that dies during its start is noticed at once: this limit is for a very busy host."""
STOP_SECONDS, TERMINATE_SECONDS = 45.0, 30.0
SLOT_SECONDS = 15.0
"""A slot whose supervisor was killed ends within its lease."""
LOG_TAIL_BYTES = 2_000
_LOOK_SECONDS = 0.01


def start(
    home: Home,
    workers: int | None = None,
    slots: int | None = None,
    *,
    port: int | None = None,
    tls: TlsFiles | None = None,
    election: Election | None = None,
    page: bool = False,
) -> tuple[ClusterRecord, tuple[str, ...]]:
    """Starts what is missing. Returns when all workers are registered, with the names of the started processes.

    workers, slots  None: as recorded, else as in the home's last cluster, else one worker of four slots
    port            of the REST API; None: as recorded, else as in the last cluster if nobody listens there, else a
                    free one
    tls             files for all connections; None: as recorded, without TLS if nothing is recorded
    election        this home's part of a cluster of several hosts; None: as recorded, without others if nothing is
    page            also start the cluster's page; False: only if it is recorded

    Clients and workers need a token, which the first start writes into the home. Raises UserError if the cluster runs
    with another shape, ExternalError if a process does not start.
    """
    with locked(home):
        before, shape = read_record(home), read_shape(home)
        planned = new_record(shape, slots, port) if before is None else _planned(before, workers, slots, port)
        plan = _with_tls(_with_election(planned, election), tls)
        if plan.election is None:
            # before any process starts: all of them read the file
            _require_token(home, before)
        started: list[Member] = []
        try:
            earlier = shape.workers if before is None else len(before.workers)
            record = _start_missing(home, plan, earlier if workers is None else workers, started)
            _wait_registered(home, record)
            if page or record.page is not None:
                record = _start_page(home, record, shape, started)
            keep_shape(home, record)
        except BaseException:
            # only what this call started: processes that ran before stay
            for member in reversed(started):
                member.process.terminate(patience_seconds=TERMINATE_SECONDS)
            raise
        return record, tuple(member.name for member in started)


def stop(home: Home) -> ClusterRecord | None:
    """Stops the home's cluster and returns its record; None if there was none. Jobs stay as recorded."""
    with locked(home):
        record = read_record(home)
        if record is None:
            return None
        _ask_to_end(home, record)
        _end_slots(home)
        for file in (coordinator_file(home), record_file(home)):
            file.unlink(missing_ok=True)
        return record


def status(home: Home) -> ClusterStatus:
    """Returns the record, its running processes, and whether the coordinator answers."""
    record = read_record(home)
    if record is None:
        return ClusterStatus()
    alive = {member.name for member in record.members if member.process.is_alive()}
    info = _info(home, record)
    return ClusterStatus(
        record=record,
        running=tuple(member.name for member in record.members if member.name in alive),
        dead=tuple(member.name for member in record.members if member.name not in alive),
        answering=info is not None,
        slots=0 if info is None else info.slots,
        slots_free=0 if info is None else info.slots_free,
        jobs_running=0 if info is None else info.jobs_running,
    )


# ---- starting ----------------------------------------------------------------------------------------------------


def _planned(before: ClusterRecord, workers: int | None, slots: int | None, port: int | None) -> ClusterRecord:
    """Returns the record to start: with its ports, so that workers find a restarted coordinator. A cluster without a
    running process may get another shape."""
    remedy = "stop it first: headrace cluster stop; or set another HEADRACE_HOME for the other cluster"
    alive = [member for member in before.workers if member.process.is_alive()]
    if slots not in {None, before.slots} and alive:
        raise UserError(f"the cluster's workers have {plural(before.slots, 'slot')} each, not {slots}", remedy=remedy)
    if workers is not None and any(int(member.name.rpartition("-")[2]) > workers for member in alive):
        raise UserError(f"the cluster has {plural(len(before.workers), 'worker')}, not {workers}", remedy=remedy)
    return with_port(before, port).model_copy(update={"slots": slots or before.slots})


def _with_tls(plan: ClusterRecord, tls: TlsFiles | None) -> ClusterRecord:
    """Returns the record with TLS. A cluster with a running process keeps its setting."""
    if tls is None or plan.tls == tls:
        return plan
    if any(member.process.is_alive() for member in plan.members):
        how = "without TLS" if plan.tls is None else f"with the certificate {plan.tls.cert}"
        raise UserError(f"the cluster runs {how}", remedy="stop it first: headrace cluster stop")
    url = plan.url.replace("http://", "https://")
    return plan.model_copy(update={"tls": tls, "url": url})


def _with_election(plan: ClusterRecord, election: Election | None) -> ClusterRecord:
    """Returns the record with an election. A cluster with a running process keeps its setting."""
    if election is None or (plan.election is not None and plan.election.same_cluster(election)):
        return plan
    if any(member.process.is_alive() for member in plan.members):
        how = "without standbys" if plan.election is None else f"with the election {plan.election.url}"
        raise UserError(f"the cluster runs {how}", remedy="stop it first: headrace cluster stop")
    scheme, address = plan.url.split("://")
    url, grpc = (host_port(election.host, int(each.rpartition(":")[2])) for each in (address, plan.grpc))
    # workers get new ids with the new tag
    return plan.model_copy(update={"url": f"{scheme}://{url}", "grpc": grpc, "election": election, "workers": ()})


def _start_missing(home: Home, plan: ClusterRecord, workers: int, started: list[Member]) -> ClusterRecord:
    """Starts all missing processes concurrently: workers dial the coordinator until it answers. With an election they
    start behind it, because it writes the cluster's token, which they read.
    """
    record, coordinator = plan, None
    if record.coordinator is None or not record.coordinator.process.is_alive():
        _refuse_second(home)
        # written by a coordinator that has ended: its content would count as the readiness of the new one
        coordinator_file(home).unlink(missing_ok=True)
        coordinator = _begin(home, "coordinator", coordinator_command(home, record), coordinator_marks(home))
        started.append(coordinator)
        record = record.model_copy(update={"coordinator": coordinator})
        # recorded before it is ready: if this command is killed now, `stop` still finds the process
        write_record(home, record)
        if record.election is not None:
            _wait(partial(_is_ready, home, coordinator), [coordinator], "the coordinator to know its cluster")
    for number in range(1, workers + 1):
        name = record.worker_id(number)
        members = {member.name: member for member in record.workers}
        if name in members and members[name].process.is_alive():
            continue
        members[name] = _begin(home, name, worker_command(home, name, record), worker_marks(home, name))
        started.append(members[name])
        record = record.model_copy(update={"workers": tuple(members.values())})
        write_record(home, record)
    record = record.model_copy(update={"workers": record.workers[:workers]})
    write_record(home, record)
    # imported while the processes start, where it costs no time
    import_module("headrace.client.http")
    if coordinator is not None:
        ready = partial(_is_ready, home, coordinator)
        _wait(ready, list(record.members), "the coordinator to be ready")
    return record


def _start_page(home: Home, record: ClusterRecord, shape: ClusterShape, started: list[Member]) -> ClusterRecord:
    """Starts the page unless it runs, and returns when it listens."""
    if record.page is not None and record.page.process.is_alive():
        return record
    port = page_port(record, shape)
    member = _begin(home, PAGE_NAME, page_command(home, port, record), page_marks(home))
    started.append(member)
    record = record.model_copy(update={"page": member, "page_port": port})
    write_record(home, record)
    _wait(lambda: not is_free(port), [member], "the page to listen")
    return record


def _begin(home: Home, name: str, command: ModuleCommand, marks: tuple[str, ...]) -> Member:
    log = log_file(home, name)
    make_private_folder(log.parent)
    pid = start_module(command, Surroundings(home.root, log, environment(home)))
    return Member(name=name, pid=pid, marks=marks, log=log)


def _require_token(home: Home, before: ClusterRecord | None) -> None:
    """Creates the home's token. Raises UserError if processes run without its file: they have another token or none."""
    runs = before is not None and any(member.process.is_alive() for member in before.members)
    if runs and not token_file(home).exists():
        raise UserError(
            f"the cluster in {home.root} runs without a token, which only earlier versions allowed",
            remedy="headrace cluster stop, then start it again: its jobs continue, and it has a token",
        )
    ensure_token(token_file(home))


def _wait_registered(home: Home, record: ClusterRecord) -> None:
    def registered() -> bool:
        info = _info(home, record)
        return info is not None and {member.name for member in record.workers} <= {each.worker for each in info.workers}

    _wait(registered, list(record.members), "the workers to register")


def _is_ready(home: Home, member: Member) -> bool:
    return _published_pid(home) == member.pid


def _published_pid(home: Home) -> int | None:
    """Returns the pid of the coordinator that last reported ready."""
    try:
        return int(json.loads(coordinator_file(home).read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _refuse_second(home: Home) -> None:
    """Raises UserError if a coordinator was started by hand in this home: a second one would take over its jobs."""
    pid = _published_pid(home)
    if pid is not None and MarkedProcess(pid, coordinator_marks(home)).is_alive():
        raise UserError(f"a coordinator of {home.root} was started by hand (pid {pid})", remedy="end that one first")


def _wait(is_so: Callable[[], bool], members: list[Member], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        for member in members:
            # a dead process ends the wait at once: its log has the reason, and a timeout would not
            if not member.process.is_alive():
                raise ExternalError(f"{member.name} has ended while it started\n{_tail(member.log)}")
        if time.monotonic() > deadline:
            logs = ", ".join(str(member.log) for member in members)
            raise ExternalError(f"waited {START_SECONDS:.0f} s for {what}", remedy=f"the logs are in {logs}")
        time.sleep(_LOOK_SECONDS)


def _tail(log: Path) -> str:
    try:
        text = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        text = ""
    return "\n".join(f"  {line}" for line in (text or "it logged nothing").splitlines()) + f"\n  ({log})"


# ---- stopping ----------------------------------------------------------------------------------------------------


def _ask_to_end(home: Home, record: ClusterRecord) -> None:
    """Requests the end through the coordinator, which ends jobs and workers in order; then signals each process.

    With an election other hosts go on: only this one's processes are signalled, at once, so that jobs restart once.
    """
    if record.election is not None:
        for member in record.members:
            member.process.ask_to_end()
    elif record.coordinator is not None and record.coordinator.process.is_alive():
        try:
            with coordinator_client(home, record) as client:
                client.shutdown()
            record.coordinator.process.wait_gone(STOP_SECONDS)
        except HeadraceError:
            pass  # it does not answer: the signals below end it
    for member in record.members:
        member.process.terminate(patience_seconds=TERMINATE_SECONDS)


def _end_slots(home: Home) -> None:
    """Waits for slots, which end with their worker; slots of a killed or frozen worker end within their lease, or are
    killed here."""
    deadline = time.monotonic() + SLOT_SECONDS
    for slot in [MarkedProcess(pid, (SLOT_ROLE, str(home.root))) for pid in _slots_of(home)]:
        if not slot.wait_gone(max(deadline - time.monotonic(), 0)):
            slot.kill()


def _slots_of(home: Home) -> list[int]:
    """Returns the slot processes of this home."""
    marks = {SLOT_ROLE, str(home.root)}
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if marks <= set(command_line(pid))]


# ---- asking ------------------------------------------------------------------------------------------------------


def _info(home: Home, record: ClusterRecord) -> ClusterInfo | None:
    try:
        with coordinator_client(home, record) as client:
            return client.cluster()
    except HeadraceError:
        return None


WORKERS, SLOTS = 1, 4
"""The default size of a cluster."""


class ClusterShape(BaseModel):
    """Size and ports of a cluster, in `<home>/cluster/shape.json`. The next start uses them again.

    slots       of each worker
    port        of the REST API
    grpc_port   of the control plane
    page_port   of its page, if it had one

    The record of a cluster ends when it is stopped; its shape stays. So addresses that others have stored (a monitoring
    system, a bookmark, HEADRACE_COORDINATOR) are valid after a stop and a start.
    """

    model_config = ConfigDict(frozen=True)

    workers: int = WORKERS
    slots: int = SLOTS
    port: int | None = None
    grpc_port: int | None = None
    page_port: int | None = None


def shape_file(home: Home) -> Path:
    """The file of a home's shape."""
    return cluster_folder(home) / "shape.json"


def read_shape(home: Home) -> ClusterShape:
    """Returns the shape of the home's last cluster; the default if there was none, or its file is unreadable."""
    try:
        return ClusterShape.model_validate_json(shape_file(home).read_bytes())
    except (OSError, ValidationError):
        return ClusterShape()


def keep_shape(home: Home, record: ClusterRecord) -> None:
    """Keeps the shape of a cluster that runs."""
    shape = ClusterShape(
        workers=len(record.workers),
        slots=record.slots,
        port=port_of(record.url),
        grpc_port=port_of(record.grpc),
        page_port=record.page_port or read_shape(home).page_port,
    )
    replace_file(shape_file(home), f"{shape.model_dump_json(indent=1)}\n".encode(), mode=PRIVATE_FILE)


def port_of(address: str) -> int:
    """The port of a URL without a path, or of HOST:PORT."""
    return int(address.rpartition(":")[2])


def new_record(shape: ClusterShape, slots: int | None, port: int | None) -> ClusterRecord:
    """Returns the record of a cluster that is to start: on the port that is asked for, else on the ports of its shape,
    else, where others listen there, on new ones. Raises UserError if others listen on the port that is asked for."""
    if port is not None:
        require_free(port)
    rest = port if port is not None else _kept_or_free(shape.port)
    grpc = _kept_or_free(None if shape.grpc_port == rest else shape.grpc_port, other_than=rest)
    return ClusterRecord(url=f"http://{LOOPBACK}:{rest}", grpc=f"{LOOPBACK}:{grpc}", slots=slots or shape.slots)


def page_port(record: ClusterRecord, shape: ClusterShape) -> int:
    """Returns the port of the cluster's page: as recorded, else as in its last cluster if nobody listens there, else a
    free one."""
    return record.page_port or _kept_or_free(shape.page_port)


def with_port(record: ClusterRecord, port: int | None) -> ClusterRecord:
    """Returns the record with another port of its REST API. Raises UserError if a process of it runs, or others listen
    there."""
    if port is None or port == port_of(record.url):
        return record
    if any(member.process.is_alive() for member in record.members):
        raise UserError(f"the cluster runs at {record.url}", remedy="stop it first: headrace cluster stop")
    require_free(port)
    scheme, address = record.url.split("://")
    return record.model_copy(update={"url": f"{scheme}://{host_port(address.rpartition(':')[0], port)}"})


def require_free(port: int) -> None:
    """Raises UserError if others listen on the port."""
    if not is_free(port):
        raise UserError(f"--port {port}: another process listens there", remedy="name another port")


def _kept_or_free(port: int | None, *, other_than: int = 0) -> int:
    return port if port is not None and is_free(port) else free_port(other_than=other_than)


State = Literal["answers", "does not answer", "on YARN"]
"""A cluster on YARN is not asked: only its ResourceManager knows whether it runs."""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """One cluster. url: for --coordinator."""

    name: str
    kind: Literal["session", "one job", "yarn"]
    state: State
    jobs_running: int
    url: str


def known_clusters(home: Home) -> tuple[KnownCluster, ...]:
    """Returns the clusters of a home, its session cluster first. A cluster of one job that has ended has no record."""
    found = [_of(home, "session", "session")]
    found += [_of(Home(folder), folder.name, "one job") for folder in sorted(own_clusters(home).glob("*"))]
    on_yarn = (record.parent.name for record in sorted(yarn_clusters(home).glob(f"*/{APPLICATION}")))
    found += [KnownCluster(name, "yarn", "on YARN", 0, f"yarn://{name}") for name in on_yarn]
    return tuple(each for each in found if each is not None)


def _of(home: Home, name: str, kind: Literal["session", "one job"]) -> KnownCluster | None:
    seen = status(home)
    if seen.record is None:
        return None
    state: State = "answers" if seen.answering else "does not answer"
    return KnownCluster(name, kind, state, seen.jobs_running, seen.record.url)
