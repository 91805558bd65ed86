"""Translates a submit request into the stored submission, and the submission into a driver's setup.

It decides nothing and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.checkpoint.savepoints.savepoint import savepoint_folder
from headrace.checkpoint.stores.opening import open_store
from headrace.client.requests import SubmitRequest
from headrace.coordinator.driver.job_setup import JobSetup, new_writer
from headrace.coordinator.job.config import Beginning, JobConfig
from headrace.coordinator.store.submission import JobSubmission, StoredFloor, SubmissionOptions
from headrace.core.clock import Clock
from headrace.core.settings import Home
from headrace.core.source_state import AppliedFloor
from headrace.processes.spawning import Starter

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.execution.origin import Origin
    from headrace.execution.planning import JobPlans
    from headrace.spec.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Prepared:
    """A planned job with its resolved origin (the savepoint or checkpoint that it starts from, or None): all that its
    driver needs."""

    plans: JobPlans
    origin: Origin | None
    beginning: Beginning


@dataclass(frozen=True, slots=True)
class Request:
    """A planned submit request, at the parallelism that the job gets."""

    asked: SubmitRequest
    plans: JobPlans
    parallelism: int
    beginning: Beginning

    @property
    def model(self) -> Pipeline:
        """The pipeline model at that parallelism."""
        return self.plans.model(self.parallelism)


def options_of(request: Request, origin: Origin | None, code: Sequence[str]) -> SubmissionOptions:
    """Returns the options to store with the job. `code`: URLs of the archives in storage."""
    asked = request.asked
    return SubmissionOptions(
        parallelism=request.parallelism,
        from_savepoint=None if origin is None else origin.url,
        claim=asked.claim,
        accepted_topics=tuple(asked.accepted_topics),
        renames=dict(asked.renames),
        code=tuple(code),
        python_path=tuple(asked.python_path),
        floors=tuple(StoredFloor(f.source, f.topic, f.partition, f.position, f.floor) for f in asked.floors),
        key=asked.key,
    )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the coordinator that every job shares.

    checkpoints  URL of the checkpoint storage of jobs whose pipeline names none
    starter      starts connector hosts
    """

    home: Home
    clock: Clock
    checkpoints: str
    starter: Starter

    def setup(self, submission: JobSubmission, prepared: Prepared, folder: Path, *, term: int) -> JobSetup:
        """Returns the setup of the job's driver. Raises UserError for an unknown kind of storage.

        folder  for its logs
        term    of the coordinator
        """
        options = submission.options
        origin = options.from_savepoint
        return JobSetup(
            config=self._config(submission, prepared),
            plans=prepared.plans,
            store=open_store(submission.storage),
            storage=submission.storage,
            writer=new_writer(term),
            code=options.code,
            python_path=options.python_path,
            floors=tuple(AppliedFloor(*each) for each in options.floors),
            claimed=None if origin is None or not options.claim else savepoint_folder(origin),
            log_folder=folder,
            environment={"HEADRACE_HOME": str(self.home.root)},
            starter=self.starter,
        )

    def _config(self, submission: JobSubmission, prepared: Prepared) -> JobConfig:
        plans, origin = prepared.plans, prepared.origin
        parallelism = submission.options.parallelism
        model = plans.model(parallelism)
        return JobConfig(
            job=submission.job,
            name=submission.name,
            parallelism=parallelism,
            plan=plans.facts,
            names=partial(plans.names, submission.job),
            version=__version__,
            checkpoint=model.checkpoint,
            restart=model.restart,
            beginning=prepared.beginning,
            savepoint=None if origin is None else origin.url,
            origin=None if origin is None else origin.manifest,
            left_open={} if origin is None else origin.open_names,
            accepted_topics=submission.options.accepted_topics,
            wall_offset_ms=self.clock.now_ms() - self.clock.monotonic_ms(),
        )
