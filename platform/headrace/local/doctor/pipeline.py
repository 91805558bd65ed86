"""The checks that a pipeline file needs: of the file, of the systems behind its nodes, and of its storage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace.connect import registry
from headrace.connect.access import AccessCheck, Finding, Status
from headrace.connect.source import SourceContext
from headrace.core.errors import HeadraceError, InvalidPipelineError
from headrace.core.settings import Home
from headrace.core.text.plural import plural
from headrace.core.types import Schema
from headrace.local.doctor.probes import Check, check_storage
from headrace.local.engine.compile import Compiled, compile_loaded
from headrace.local.pipeline_file import load_file
from headrace.plan.checkpoint_terms import checkpoint_terms
from headrace.plan.contexts import sink_context, source_context
from headrace.plan.physical import SinkSpec, SourceSpec


def file_checks(file: str, set_: Sequence[str], home: Home, *, limit_s: float) -> tuple[Check, ...]:
    """The checks of a pipeline. An invalid file has one finding for each mistake, and no other check."""
    try:
        compiled = compile_loaded(load_file(file, set_))
    except InvalidPipelineError as error:
        wrong = tuple(
            Finding(f"pipeline {file}", Status.FAILED, str(problem).partition("\n")[0], problem.remedy)
            for problem in error.problems
        )
        return (Check(f"pipeline {file}", lambda: wrong),)
    except HeadraceError as error:
        failed = Finding(f"pipeline {file}", Status.FAILED, error.message, error.remedy)
        return (Check(f"pipeline {file}", lambda: (failed,)),)
    count = len(compiled.logical.nodes)
    valid = Finding(f"pipeline {file}", Status.OK, f"valid, {plural(count, 'node')}")
    storage = compiled.pipeline.checkpoint.storage or str(home.checkpoints)
    return (
        Check(f"pipeline {file}", lambda: (valid,)),
        *_node_checks(compiled, limit_s),
        Check(f"storage {storage}", partial(check_storage, storage)),
    )


def _node_checks(compiled: Compiled, limit_s: float) -> tuple[Check, ...]:
    pipeline, checks = compiled.pipeline, []
    for node in compiled.logical.nodes:
        match node.spec:
            case SourceSpec() as spec:
                context = source_context(spec, pipeline.name, pipeline.batch.max_rows)
                access = spec.config.open_access_check(context)
                checks.append(_check(f"source {spec.node}", spec.connector, access, limit_s))
            case SinkSpec() as spec:
                terms = checkpoint_terms(pipeline)
                sink = sink_context(spec, pipeline.name, parallelism=node.parallelism, terms=terms)
                access = spec.config.open_access_check(sink)
                checks.append(_check(f"sink {spec.node}", spec.connector, access, limit_s))
            case _:
                pass
    return tuple(checks)


def broker_checks(brokers: str, *, limit_s: float) -> tuple[Check, ...]:
    """The check of brokers without a pipeline: whether they answer, and the topics that may be read."""
    source = registry.connector("kafka").source
    assert source is not None, "the kafka connector has a source"
    config = source.model_validate({"brokers": brokers, "pattern": ".+"})
    access = config.open_access_check(SourceContext("doctor", "doctor", Schema(())))
    return (_check(f"brokers {brokers}", "kafka", access, limit_s),)


def _check(subject: str, connector: str, access: AccessCheck | None, limit_s: float) -> Check:
    if access is None:
        unchecked = Finding(subject, Status.UNCHECKED, f"the connector {connector} has no check")
        return Check(subject, lambda: (unchecked,))
    return Check(subject, partial(access.run, timeout_s=limit_s))
