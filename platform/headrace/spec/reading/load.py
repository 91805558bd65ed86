"""Loads a pipeline from text: YAML -> tree -> variables and `--set` -> plain data -> Pipeline.

`load_file` reads the text from a file. All problems are raised together as InvalidPipelineError, in file order, each
with its line and column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.core.errors import InvalidPipelineError, Location, Problem, UserError
from headrace.spec.graph import GROUPS
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.findings import Finding, Path
from headrace.spec.reading.locations import NODES_MAX, Locations, Plain
from headrace.spec.reading.overrides import SetLocation, apply_overrides
from headrace.spec.reading.read import TOP_KEYS, read_pipeline
from headrace.spec.reading.yaml_errors import Flaw
from headrace.spec.reading.yaml_tree import Mapping as MappingNode
from headrace.spec.reading.yaml_tree import compose


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """A pipeline and the locations of its fields. Paths are those of the file: ("steps", "hourly", "filter")."""

    pipeline: Pipeline
    locations: Locations

    def locate(self, path: Path, *, on_key: bool = False) -> Location:
        """The place of the field at `path`, or of its nearest parent. See Locations.locate."""
        return self.locations.locate(path, on_key=on_key)

    def locate_in(self, path: Path, offset: int) -> Location:
        """The place of character `offset` (from 0) of the text at `path`."""
        return self.locations.locate_in(path, offset)


class PartlyReadError(InvalidPipelineError):
    """A file with mistakes. `readable` has the nodes that could be read, for checks of their columns and expressions;
    None if none can be checked. It is no pipeline to run.
    """

    def __init__(self, problems: list[Problem], readable: LoadedPipeline | None) -> None:
        super().__init__(problems)
        self.readable = readable


def load_text(text: str, file: str, *, set_: Sequence[str] = (), environ: Mapping[str, str]) -> LoadedPipeline:
    """Reads and checks the text of a pipeline file; `set_` holds `path=value` texts that override fields. `file` is the
    file name in problems.

    Raises InvalidPipelineError with every problem of the structure; it is a PartlyReadError if the text is YAML.
    """
    tree = compose(text, file)
    if tree.root is None:
        flaws = tree.flaws or [
            Flaw("the file is empty", "a pipeline needs at least name, sources and sinks", Location(file, 1, 1))
        ]
        raise InvalidPipelineError(in_file_order(_problem_of(flaw) for flaw in flaws))
    if set_ and isinstance(tree.root, MappingNode):
        apply_overrides(tree.root, set_, TOP_KEYS)
    locations = Locations(tree.root.location)
    plain = Plain(environ, locations)
    data = plain.data(tree.root)
    if len(locations.values) >= NODES_MAX:
        raise UserError(f"{file}: aliases unfold into more than {NODES_MAX} values", remedy="use fewer aliases")
    pipeline, findings = read_pipeline(data)
    cut = {flaw.path for flaw in tree.flaws} | {finding.path for finding in plain.findings}
    located = [_problem_of(flaw) for flaw in tree.flaws]
    located += [_located(finding, locations) for finding in plain.findings]
    located += [_located(finding, locations) for finding in findings if finding.path not in cut]
    if pipeline is None or findings or located:
        problems = in_file_order(located or [_located(finding, locations) for finding in findings])
        readable = None if pipeline is None else _uncut(pipeline, cut)
        raise PartlyReadError(problems, None if readable is None else LoadedPipeline(readable, locations))
    return LoadedPipeline(pipeline, locations)


def _uncut(pipeline: Pipeline, cut: set[Path]) -> Pipeline | None:
    """The pipeline without nodes of which a part is missing or has no value; None if a part around them is missing."""
    broken = {path[:2] for path in cut}
    if any(len(path) < 2 for path in broken):
        return None
    return pipeline.model_copy(
        update={
            group: {name: node for name, node in getattr(pipeline, group).items() if (group, name) not in broken}
            for group in GROUPS
        }
    )


def _problem_of(flaw: Flaw) -> Problem:
    return Problem(flaw.message, flaw.path, flaw.location, flaw.remedy)


def _located(finding: Finding, locations: Locations) -> Problem:
    return Problem(finding.message, finding.path, locations.locate(finding.path, on_key=finding.on_key), finding.remedy)


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sorted by place and deduplicated: an alias repeats one mistake at several paths."""
    once = {(str(problem.location), problem.message): problem for problem in problems}
    return sorted(once.values(), key=_order)


def _order(problem: Problem) -> tuple[bool, int, int]:
    location = problem.location
    assert location is not None, "the loader locates every problem"
    return isinstance(location, SetLocation), location.line, location.column
