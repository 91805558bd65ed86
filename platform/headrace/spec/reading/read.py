"""From the file form (plain data) to a Pipeline, with all problems collected.

Each node is read on its own, so a mistake in one hides none in another. Paths of findings are those of the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headrace.connect import registry
from headrace.core.errors import InvalidPipelineError, Problem, did_you_mean
from headrace.core.text.concealment import Concealment, HiddenTexts
from headrace.spec.connectors import Connections, read_connections, read_connector, with_registries
from headrace.spec.findings import Finding, FindingsError, Path, collecting, joined, wrong
from headrace.spec.graph import check_graph
from headrace.spec.pipeline import (
    FILES_KEY,
    HIDDEN_KEY,
    Pipeline,
    PipelineFields,
    SinkFields,
    SinkNode,
    SourceFields,
    SourceNode,
    StepFields,
    StepNode,
    TestCase,
)
from headrace.spec.rows import row_values
from headrace.spec.travelling_files import files_of
from headrace.spec.verbs.table import BESIDE, LATER_KEYS, LATER_VERBS, VERBS, read_verb
from headrace.spec.verbs.verb import Verb
from headrace.spec.window import NOT_IN_THIS_VERSION
from headrace.spec.wording import file_keys, kind_of, meant_key, read_model, unknown_key

IGNORED_PREFIX = "x-"
SECTIONS = ("sources", "steps", "sinks", "connections", "tests")
_DECIDING_KEYS = ("parallelism", "max_parallelism", "checkpoint")
"""Fields of the pipeline that the checks of a node depend on."""
TOP_KEYS = (*file_keys(PipelineFields), *SECTIONS)
_Node = TypeVar("_Node", SourceNode, StepNode, SinkNode)


def pipeline_from_dict(data: object, *, needs_sinks: bool = True) -> Pipeline:
    """A pipeline from plain data. Raises InvalidPipelineError whose problems carry paths.

    needs_sinks   a pipeline without sinks is a problem, except where somebody else takes its rows
    """
    pipeline, findings = read_pipeline(data, needs_sinks=needs_sinks)
    hidden = hidden_in(data)
    if findings or pipeline is None:
        problems = [Problem(item.message, item.path, None, item.remedy) for item in findings]
        concealment = Concealment(hidden)
        raise InvalidPipelineError([concealment.problem(problem) for problem in problems])
    kept = {"hidden": hidden, "files": files_of(data.get(FILES_KEY) if isinstance(data, Mapping) else None)}
    return pipeline.model_copy(update=kept) if any(kept.values()) else pipeline


def hidden_in(data: object) -> HiddenTexts:
    """The hidden texts of a pipeline in its file form; none in one that does not have them as headrace writes them."""
    found = data.get(HIDDEN_KEY) if isinstance(data, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name): tuple(texts)
        for name, texts in found.items()
        if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
    }


def read_pipeline(data: object, *, needs_sinks: bool = True) -> tuple[Pipeline | None, list[Finding]]:
    """A pipeline and its findings. With findings it holds the nodes that could be read, or is None if how they run is
    unknown.
    """
    if not isinstance(data, Mapping):
        return None, [Finding(f"a pipeline is a mapping, not {kind_of(data)}", "begin with `name:`")]
    known = {key: value for key, value in data.items() if not str(key).startswith(IGNORED_PREFIX)}
    whole = corrected(known, Keys(TOP_KEYS), _node_keys())
    unknown = [unknown_key(str(key), TOP_KEYS) for key in whole.data if key not in TOP_KEYS]
    pipeline, findings = _read_whole(whole.data, needs_sinks=needs_sinks)
    found = [*unknown, *whole.findings, *(whole.as_written(each) for each in findings)]
    return pipeline, list(dict.fromkeys(found))


def _node_keys() -> dict[str, Keys]:
    """Section -> the keys of its nodes. Connectors and verbs are not guessed: much depends on them."""
    connectors = registry.connector_names()
    return {
        "sources": Keys(file_keys(SourceFields), ("partition", *connectors)),
        "steps": Keys(file_keys(StepFields), (*VERBS, *BESIDE)),
        "sinks": Keys(file_keys(SinkFields), connectors),
    }


def _read_whole(data: Mapping[str, Any], *, needs_sinks: bool) -> tuple[Pipeline | None, list[Finding]]:
    """Reads the known keys, as `read_pipeline` does."""
    findings: list[Finding] = []
    fields: PipelineFields | None = None
    with collecting(findings):
        fields = read_model(PipelineFields, {key: data[key] for key in file_keys(PipelineFields) if key in data})
    connections = read_connections(data.get("connections"), findings)
    sources = _read_group(data, "sources", lambda body: _read_source(body, connections), findings, required=True)
    steps = _read_group(data, "steps", _read_step, findings, required=False)
    sinks = _read_group(data, "sinks", lambda body: _read_sink(body, connections), findings, required=needs_sinks)
    findings.extend(check_graph(data))
    if fields is not None:
        findings.extend(_too_parallel(fields, data, {**sources, **steps, **sinks}))
    tests = _read_tests(data, sources, findings)
    if findings or fields is None:
        return _readable(fields, data, (sources, steps, sinks)), findings
    return Pipeline(**dict(fields), sources=sources, steps=steps, sinks=sinks, tests=tests), []


def _readable(
    fields: PipelineFields | None,
    data: Mapping[str, Any],
    groups: tuple[dict[str, SourceNode], dict[str, StepNode], dict[str, SinkNode]],
) -> Pipeline | None:
    """The nodes that could be read, without names that two groups share: which node a reader means is unknown."""
    if fields is None:
        needed = {key: data[key] for key in _DECIDING_KEYS if key in data}
        with collecting([]):
            fields = read_model(PipelineFields, {"name": "unnamed", **needed})
    if fields is None:
        return None
    uses = Counter(name for group in SECTIONS[:3] for name in _names(data, group))
    sources, steps, sinks = groups
    return Pipeline(
        **dict(fields),
        sources={name: node for name, node in sources.items() if uses[name] == 1},
        steps={name: node for name, node in steps.items() if uses[name] == 1},
        sinks={name: node for name, node in sinks.items() if uses[name] == 1},
    )


def _read_group(
    data: Mapping[str, Any],
    group: str,
    read: Callable[[Mapping[str, Any]], _Node],
    findings: list[Finding],
    *,
    required: bool,
) -> dict[str, _Node]:
    section = data.get(group)
    if section is None and not required:
        return {}
    if section is None or section == {}:
        message = f"missing {group!r}" if group not in data else f"{group!r} is empty"
        path = (group,) if group in data else ()
        findings.append(Finding(message, f"a pipeline has at least one node under `{group}:`", path, on_key=True))
        return {}
    if not isinstance(section, Mapping):
        findings.append(
            Finding(
                f"{group!r} takes a mapping of node name to node, not {kind_of(section)}",
                "write each node's name, a colon, and its fields below it",
                (group,),
            )
        )
        return {}
    nodes: dict[str, _Node] = {}
    for name, body in section.items():
        with collecting(findings, group, str(name)):
            if not isinstance(body, Mapping):
                raise wrong(f"node {str(name)!r} takes a mapping, not {kind_of(body)}", "write its fields below it")
            nodes[str(name)] = read(body)
    return nodes


def _read_source(body: Mapping[str, Any], connections: Connections) -> SourceNode:
    findings: list[Finding] = []
    own = file_keys(SourceFields)
    fields: SourceFields | None = None
    with collecting(findings):
        body = with_registries(body, connections)
    with collecting(findings):
        fields = read_model(SourceFields, {key: body[key] for key in own if key in body})
    if "partition" in body:
        findings.append(Finding("a source has no input to partition", "set it on the node below", ("partition",)))
    with collecting(findings):
        name, config = read_connector(body, (*own, "partition"), "source", connections)
        if fields is not None and not findings:
            return SourceNode(**dict(fields), connector=name, config=config)
    raise FindingsError(findings)


def _read_sink(body: Mapping[str, Any], connections: Connections) -> SinkNode:
    findings: list[Finding] = []
    own = file_keys(SinkFields)
    fields: SinkFields | None = None
    with collecting(findings):
        body = with_registries(body, connections)
    with collecting(findings):
        _check_one_input(body)
        fields = read_model(SinkFields, {key: body[key] for key in own if key in body})
    with collecting(findings):
        name, config = read_connector(body, own, "sink", connections)
        if fields is not None and not findings:
            return SinkNode(**dict(fields), connector=name, config=config)
    raise FindingsError(findings)


def _read_step(body: Mapping[str, Any]) -> StepNode:
    findings: list[Finding] = []
    own = file_keys(StepFields)
    fields: StepFields | None = None
    with collecting(findings):
        _check_one_input(body)
        fields = read_model(StepFields, {key: body[key] for key in own if key in body})
    verb: Verb | None = None
    with collecting(findings):
        verb = _read_step_verb(body, own)
    with collecting(findings):
        _check_from(body)
    if findings:
        raise FindingsError(findings)
    assert fields is not None and verb is not None, "without findings, both were read"
    return StepNode(**dict(fields), verb=verb)


def _read_step_verb(body: Mapping[str, Any], own: tuple[str, ...]) -> Verb:
    for later in (key for key in body if key in (*LATER_VERBS, *LATER_KEYS)):
        raise wrong(f"{later!r} is {NOT_IN_THIS_VERSION}", f"verbs: {', '.join(VERBS)}", later, on_key=True)
    findings: list[Finding] = []
    valid = (*own, *VERBS, *BESIDE)
    findings.extend(unknown_key(str(key), valid) for key in body if key not in valid)
    verbs = [key for key in body if key in VERBS]
    beside = [key for key in body if key in BESIDE]
    if len(verbs) > 1:
        message = f"a step does one thing, and this one has {len(verbs)} verbs: {', '.join(verbs)}"
        findings.append(Finding(message, "make each its own step", (verbs[1],), on_key=True))
    elif not verbs and beside:
        needed = BESIDE[beside[0]]
        remedy = f"add `{needed.NAME}: {needed.SHORTEST}`"
        findings.append(Finding(f"{beside[0]!r} without {_one(needed.NAME)}", remedy))
    elif not verbs and not findings:
        findings.append(Finding("the step has no verb: it does nothing", f"add one of {', '.join(VERBS)}"))
    elif verbs and (strange := next((key for key in beside if verbs[0] != BESIDE[key].NAME), None)):
        needed = BESIDE[strange]
        message = f"{strange!r} stands only beside `{needed.NAME}`, not beside {verbs[0]!r}"
        findings.append(Finding(message, f"{needed.NAME} in a step of its own", (strange,), on_key=True))
    if len(verbs) == 1:
        with collecting(findings):
            verb = read_verb(verbs[0], body)
            if not findings:
                return verb
    raise FindingsError(findings)


def _one(verb: str) -> str:
    return f"an {verb}" if verb[0] in "aeio" else f"a {verb}"


def _check_one_input(body: Mapping[str, Any]) -> None:
    given = body.get("from")
    if isinstance(given, list | tuple):
        names = ", ".join(str(name) for name in given)
        raise wrong("'from' takes one node, not a list", f"unite them in a step `union: [{names}]`", "from")


def _check_from(body: Mapping[str, Any]) -> None:
    naming = next((name for name, verb in VERBS.items() if verb.NAMES_INPUTS and name in body), None)
    if naming is not None:
        if "from" in body:
            remedy = f"it names all its inputs: {naming}: [a, b]"
            raise wrong(f"{_one(naming)} has no `from`", remedy, "from", on_key=True)
    elif "from" not in body:
        raise wrong("missing 'from'", "add `from: <node>`: the node that rows come from")
    elif body["from"] is None:
        raise wrong("'from' has no value", "write the name of the node that rows come from", "from")


def _too_parallel(
    fields: PipelineFields, data: Mapping[str, Any], nodes: Mapping[str, SourceNode | StepNode | SinkNode]
) -> list[Finding]:
    most = fields.max_parallelism
    remedy = "lower it, or raise max_parallelism (if there is state: --max-parallelism)"
    findings = []
    if fields.parallelism > most:
        findings.append(
            Finding(f"parallelism {fields.parallelism} is above max_parallelism {most}", remedy, ("parallelism",))
        )
    for name, node in nodes.items():
        if node.parallelism is not None and node.parallelism > most:
            group = next(group for group in ("sources", "steps", "sinks") if name in _names(data, group))
            message = f"parallelism {node.parallelism} is above max_parallelism {most}"
            findings.append(Finding(message, remedy, (group, name, "parallelism")))
    return findings


def _read_tests(
    data: Mapping[str, Any], sources: Mapping[str, SourceNode], findings: list[Finding]
) -> tuple[TestCase, ...]:
    section = data.get("tests")
    if section is None:
        return ()
    if not isinstance(section, list | tuple):
        findings.append(
            Finding(f"'tests' takes a list of cases, not {kind_of(section)}", "write `- name: ..`", ("tests",))
        )
        return ()
    cases: list[TestCase] = []
    for index, body in enumerate(section):
        with collecting(findings, "tests", str(index)):
            case = read_model(TestCase, body)
            if case.name in (before.name for before in cases):
                raise wrong(f"there is already a case {case.name!r}", "give it another name", "name")
            _check_case(case, data, sources)
            cases.append(case)
    return tuple(cases)


def _check_case(case: TestCase, data: Mapping[str, Any], sources: Mapping[str, SourceNode]) -> None:
    findings: list[Finding] = []
    outputs = [*_names(data, "steps"), *_names(data, "sinks")]
    for side, names, valid in (
        ("inputs", case.inputs, _names(data, "sources")),
        ("outputs", case.outputs, outputs),
    ):
        for name in names:
            if name.partition(".")[0] not in valid:
                remedy = joined(did_you_mean(name, valid), f"nodes: {', '.join(valid)}")
                findings.append(Finding(f"{side} name no node {name!r}", remedy, (side, name), on_key=True))
    for name, rows in case.inputs.items():
        if name in sources:
            node = sources[name]
            for index, row in enumerate(rows):
                with collecting(findings, "inputs", name, str(index)):
                    row_values(row, node.decoded, also=tuple(node.config.metadata_columns.values()))
    if findings:
        raise FindingsError(findings)


def _names(data: Mapping[str, Any], group: str) -> list[str]:
    section = data.get(group)
    return [str(name) for name in section] if isinstance(section, Mapping) else []


# ---- misspelt keys ---------------------------------------------------------------------------------------------------
# Keys that are misspelt, or words of other systems, are read as what they mean; so are nodes in a list.
#
# So all mistakes below such a key are found at once, and none is invented: neither that the key it means is missing,
# nor that the nodes below it are unknown.


@dataclass(frozen=True, slots=True)
class Corrected:
    """A pipeline's data with the keys that are meant.

    findings: one for each misspelt key. written: a path of `data` -> how its last key is written.
    """

    data: Mapping[str, Any]
    findings: tuple[Finding, ...]
    written: Mapping[Path, str]

    def as_written(self, finding: Finding) -> Finding:
        """The finding at the keys that the user wrote."""
        path = finding.path
        keys = (self.written.get(path[: end + 1], key) for end, key in enumerate(path))
        return replace(finding, path=tuple(keys))


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys that a mapping may have. corrected: those that a misspelt one may be read as; others: the other ones."""

    corrected: Sequence[str]
    others: Sequence[str] = ()

    @property
    def valid(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.corrected, *self.others)

    def meant(self, data: Mapping[str, Any]) -> dict[str, str]:
        """Misspelt key of `data` -> the one that it means, which is missing."""
        found: dict[str, str] = {}
        for key in (each for each in data if isinstance(each, str) and each not in self.valid):
            name = meant_key(key, self.valid)
            if name is not None and name in self.corrected and name not in data and name not in found.values():
                found[key] = name
        return found


def corrected(data: Mapping[str, Any], top: Keys, of_nodes: Mapping[str, Keys]) -> Corrected:
    """Corrects the keys of the top and of each node. of_nodes: section -> the keys of its nodes. Other unknown keys
    stay: whoever reads them reports them."""
    written: dict[Path, str] = {}
    findings: list[Finding] = []
    whole = dict(_renamed(data, top, (), written, findings))
    for section, keys in of_nodes.items():
        nodes = whole.get(section)
        if isinstance(nodes, list) and (names := _node_names(nodes)):
            remedy = f"write `{names[0]}:` and below it the rest of its fields, without `-` and `name:`"
            findings.append(
                Finding(f"{section!r} takes a mapping of node name to node, not a list", remedy, (section,))
            )
            written |= {(section, name): str(index) for index, name in enumerate(names)}
            nodes = {body["name"]: {key: body[key] for key in body if key != "name"} for body in nodes}
        if isinstance(nodes, Mapping):
            whole[section] = {
                name: _renamed(body, keys, (section, str(name)), written, findings) for name, body in nodes.items()
            }
    made = Corrected(whole, (), written)
    return replace(made, findings=tuple(made.as_written(finding) for finding in findings))


def _node_names(nodes: Sequence[object]) -> list[str]:
    """The names of listed nodes; none if one has no name of its own."""
    names = [body.get("name") for body in nodes if isinstance(body, Mapping)]
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(set(texts)) == len(nodes) else []


def _renamed(body: Any, keys: Keys, path: Path, written: dict[Path, str], findings: list[Finding]) -> Any:
    """The body with the keys that are meant. path: where it stands in the corrected data."""
    meant = keys.meant(body) if isinstance(body, Mapping) else {}
    for key, name in meant.items():
        written[*path, name] = key
        findings.append(unknown_key(key, keys.valid, path))
    return {meant.get(key, key): value for key, value in body.items()} if meant else body
