"""Loads a pipeline from text: YAML -> tree -> variables and `--set` -> plain data -> Pipeline.

`load_file` reads the text from a file. All problems are raised together as InvalidPipelineError, in file order, each
with its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.connect import registry
from headrace.core.config import Address
from headrace.core.errors import InvalidPipelineError, Location, Problem, UserError
from headrace.core.ids import PIPELINE_NAME
from headrace.core.text.concealment import Concealment, HiddenTexts, hidden_texts
from headrace.spec.findings import Finding, Path
from headrace.spec.graph import GROUPS
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.locations import NODES_MAX, LocatedValue, Locations, Plain, SetLocation, apply_overrides
from headrace.spec.reading.read import TOP_KEYS, read_pipeline
from headrace.spec.reading.variables import Variables
from headrace.spec.reading.yaml_tree import Flaw, Scalar, compose
from headrace.spec.reading.yaml_tree import Mapping as MappingNode
from headrace.spec.wording import file_key


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


_FIELD = ("sources", "flights", "kafka")
"""A path this long is inside of a node; a shorter one has many values below it."""


@dataclass(frozen=True, slots=True)
class UnreplacedPipeline:
    """A pipeline whose variables were not read.

    readable   the nodes that could be read, for checks of their columns and expressions; None: none
    problems   the problems that do not depend on a variable
    opaque     paths of the values that were not checked: they contain a variable without a default
    """

    readable: LoadedPipeline | None
    problems: list[Problem]
    opaque: frozenset[Path]


def load_text(text: str, file: str, *, set_: Sequence[str] = (), environ: Mapping[str, str]) -> LoadedPipeline:
    """Reads and checks the text of a pipeline file; `set_` holds `path=value` texts that override fields. `file` is the
    file name in problems.

    Raises InvalidPipelineError with every problem of the structure; it is a PartlyReadError if the text is YAML.
    """
    reading = _read(text, file, set_, Variables(environ))
    problems = reading.problems
    if problems or reading.pipeline is None:
        raise PartlyReadError(problems, reading.readable)
    return LoadedPipeline(reading.pipeline, reading.locations)


def load_without_variables(text: str, file: str, *, set_: Sequence[str] = ()) -> UnreplacedPipeline:
    """Reads and checks the text of a pipeline file without any variable: what has no default stays `${NAME}`, and is
    not checked. For files of strangers. Raises InvalidPipelineError if the text is no YAML."""
    reading = _read(text, file, set_, Variables(None))
    opaque = reading.variables.opaque
    problems = [problem for problem in reading.problems if not is_opaque(problem.path, opaque)]
    readable = reading.readable
    if reading.pipeline is not None and not reading.problems:
        readable = LoadedPipeline(reading.pipeline, reading.locations)
    return UnreplacedPipeline(readable, problems, frozenset(opaque))


def is_opaque(path: Path, opaque: Collection[Path]) -> bool:
    """Whether a problem at this path of a node or setting may be one of a value that is not known."""
    return any(path == each or (len(path) >= len(_FIELD) and each[: len(path)] == path) for each in opaque)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read of a file.

    pipeline   None: not even the parts around its nodes could be read
    readable   the nodes that can be checked further, if there are problems
    """

    pipeline: Pipeline | None
    problems: list[Problem]
    readable: LoadedPipeline | None
    locations: Locations
    variables: Variables


def _read(text: str, file: str, set_: Sequence[str], variables: Variables) -> _Reading:
    tree = compose(text, file)
    if tree.root is None:
        flaws = tree.flaws or [
            Flaw("the file is empty", "a pipeline needs at least name, sources and sinks", Location(file, 1, 1))
        ]
        raise InvalidPipelineError(in_file_order(_problem_of(flaw) for flaw in flaws))
    if set_ and isinstance(tree.root, MappingNode):
        apply_overrides(tree.root, set_, TOP_KEYS)
    locations = Locations(tree.root.location)
    plain = Plain(variables, locations)
    data = plain.data(tree.root)
    if len(locations.values) >= NODES_MAX:
        raise UserError(f"{file}: aliases unfold into more than {NODES_MAX} values", remedy="use fewer aliases")
    pipeline, findings = read_pipeline(data)
    cut = {flaw.path for flaw in tree.flaws} | {finding.path for finding in plain.findings}
    located = [_problem_of(flaw) for flaw in tree.flaws]
    located += [_located(finding, locations) for finding in plain.findings]
    located += [_located(finding, locations) for finding in findings if finding.path not in cut]
    hidden = hidden_values(variables, locations.values)
    pipeline = None if pipeline is None else pipeline.model_copy(update={"hidden": hidden})
    if pipeline is not None and not findings and not located:
        return _Reading(pipeline, [], None, locations, variables)
    concealment = Concealment(hidden)
    problems = in_file_order(located or [_located(finding, locations) for finding in findings])
    uncut = None if pipeline is None else _uncut(pipeline, cut)
    readable = None if uncut is None else LoadedPipeline(uncut, locations)
    return _Reading(pipeline, [concealment.problem(each) for each in problems], readable, locations, variables)


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


# ---- hidden values ---------------------------------------------------------------------------------------------------
# Which values of variables are hidden in the texts of a pipeline's job, and which ones everybody may read.
#
# A value is public if every place of it is: the pipeline's name, which lists of jobs show, and addresses of systems in
# fields that are made for them (`core.config.Address`). Everything else may be a secret. Words that stand in the file
# itself are no secrets, nor are names of variables.

_ADDRESSES = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}(\s*,\s*[A-Za-z0-9._-]+:[0-9]{1,5})*\Z")
_NODES = ("sources", "sinks", "connections")


def hidden_values(variables: Variables, values: Mapping[Path, LocatedValue]) -> HiddenTexts:
    """The texts to hide for a file. values: every value of the file."""
    secret = {
        name: value
        for name, value in variables.values.items()
        if not all(_is_public(path, values[path].text or "") for path in variables.places[name])
    }
    return hidden_texts(secret, _source_texts(values)) if secret else {}


def _source_texts(values: Mapping[Path, LocatedValue]) -> list[str]:
    """What is written in the file: keys, and scalars before variables are replaced. Not in `--set`: a shell has
    replaced variables there."""
    texts = [path[-1] for path in values if path]
    for value in values.values():
        node = value.node
        if isinstance(node, Scalar) and node.text is not None and not isinstance(node.location, SetLocation):
            texts.append(node.text)
    return texts


def _is_public(path: Path, text: str) -> bool:
    if path == ("name",):
        return PIPELINE_NAME.match(text) is not None
    return _ADDRESSES.match(text.strip()) is not None and _is_address(path)


def _is_address(path: Path) -> bool:
    if len(path) != 4 or path[0] not in _NODES:
        return False
    try:
        connector = registry.connector(path[2])
    except UserError:
        return False
    return any(
        file_key(name, info) == path[3] and any(isinstance(mark, Address) for mark in info.metadata)
        for model in (connector.source, connector.sink)
        if model is not None
        for name, info in model.model_fields.items()
    )
