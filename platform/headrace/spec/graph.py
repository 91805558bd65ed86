"""The graph of nodes: names, dangling references, side outputs, cycles, targets of dead letters.

Pure checks over a light view of the nodes, built from the file form. So a node that cannot be read still defines a
name, and one mistake is not reported at every node downstream.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import did_you_mean
from headrace.core.ids import HIDDEN_PREFIX, NODE_NAME, split_output
from headrace.operators.operator import BAD, LATE
from headrace.spec.findings import Finding, Path, joined
from headrace.spec.verbs.table import VERBS, named_inputs

GROUPS = ("sources", "steps", "sinks")
_KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """The visible part of a node: its inputs (with the path of each reference) and its side outputs."""

    name: str
    group: str
    inputs: tuple[tuple[str, Path], ...]
    windowed: bool
    diverts: bool
    dead_letter: bool
    kafka: bool

    @property
    def path(self) -> Path:
        """The node's path in the file form."""
        return (self.group, self.name)


def check_graph(data: Mapping[str, object]) -> list[Finding]:
    """Every problem in the graph of a pipeline's file form."""
    findings: list[Finding] = []
    nodes: dict[str, GraphNode] = {}
    for group in GROUPS:
        section = data.get(group)
        for name, body in section.items() if isinstance(section, Mapping) else ():
            node = _view(str(name), group, body)
            findings.extend(_check_name(node, nodes))
            nodes.setdefault(node.name, node)
    for node in nodes.values():
        for reference, path in node.inputs:
            finding = _check_reference(reference, path, nodes)
            if finding:
                findings.append(finding)
    findings.extend(_cycles(nodes))
    findings.extend(_dead_letters(nodes))
    return findings


def _view(name: str, group: str, body: object) -> GraphNode:
    fields = body if isinstance(body, Mapping) else {}
    rule = fields.get("on_error")
    inputs = tuple((reference, (group, name, *path)) for reference, path in named_inputs(fields))
    return GraphNode(
        name=name,
        group=group,
        inputs=inputs if group != "sources" else (),
        windowed=any(key in fields and verb.has_late(fields) for key, verb in VERBS.items()),
        diverts=rule == "divert",
        dead_letter=isinstance(rule, Mapping),
        kafka=_KAFKA in fields,
    )


def _check_name(node: GraphNode, before: Mapping[str, GraphNode]) -> list[Finding]:
    if not NODE_NAME.match(node.name):
        near = re.sub(r"[^a-z0-9]+", "_", node.name.lower()).strip("_")
        remedy = joined(
            f"did you mean {near!r}?" if NODE_NAME.match(near) and near not in before else None,
            "a node's name begins with a letter a-z and holds a-z, 0-9 and _",
        )
        return [Finding(f"{node.name!r} is not a node's name", remedy, node.path, on_key=True)]
    if HIDDEN_PREFIX in node.name:
        near = re.sub(r"_{2,}", "_", node.name).rstrip("_")
        free = next(each for each in (near, *(f"{near}_{n}" for n in range(2, len(before) + 3))) if each not in before)
        return [
            Finding(
                f"{node.name!r} has `__` in it: such names belong to nodes that the planner adds",
                f"name it {free!r}, and keep its state with `--rename {node.name}={free}`",
                node.path,
                on_key=True,
            )
        ]
    if node.name in before:
        other = before[node.name].group
        return [
            Finding(
                f"{node.name!r} is already a name in {other}",
                "a node's name is its identity: give this one another",
                node.path,
                on_key=True,
            )
        ]
    return []


def _check_reference(reference: str, path: Path, nodes: Mapping[str, GraphNode]) -> Finding | None:
    name, output = split_output(reference)
    node = nodes.get(name)
    if node is None:
        readable = [item.name for item in nodes.values() if item.group != "sinks" and item.path != path[:2]]
        near = did_you_mean(name, readable)
        return Finding(f"there is no node {name!r}", joined(near, f"nodes: {', '.join(readable) or 'none'}"), path)
    if node.group == "sinks" and output is None:
        feed = node.inputs[0][0] if node.inputs else None
        return Finding(f"{name!r} is a sink: nothing can read it", f"read {feed!r} as it does" if feed else None, path)
    if output is None or (output == BAD and node.diverts) or (output == LATE and node.windowed):
        return None
    if output == LATE:
        return Finding(f"{name!r} has no output 'late'", "only an aggregate with a window has one", path)
    if output == BAD:
        return Finding(f"{name!r} has no output 'bad'", f"set `on_error: divert` on {name!r}", path)
    valid = [item for item, there in ((BAD, node.diverts), (LATE, node.windowed)) if there]
    near = did_you_mean(output, valid)
    return Finding(
        f"{name!r} has no output {output!r}", joined(near, f"its side outputs: {', '.join(valid) or 'none'}"), path
    )


def _upstream(node: GraphNode, nodes: Mapping[str, GraphNode]) -> list[GraphNode]:
    names = [split_output(reference)[0] for reference, _ in node.inputs]
    return [nodes[name] for name in names if name in nodes]


def _cycles(nodes: Mapping[str, GraphNode]) -> list[Finding]:
    """One finding per cycle, at the reference by which its first node (in file order) reads it."""
    nodes = {
        name: node for name, node in nodes.items() if node.group == "steps" or (node.group == "sinks" and node.diverts)
    }
    findings: list[Finding] = []
    done: set[str] = set()
    for cycle in (cycle for start in nodes.values() for cycle in _find_cycles(start, nodes, done)):
        head = nodes[min(cycle, key=list(nodes).index)]
        turn = cycle.index(head.name)
        flow = [*cycle[turn:], *cycle[:turn], head.name]
        path = next(path for reference, path in head.inputs if split_output(reference)[0] == flow[1])
        text = " -> ".join(reversed(flow))
        findings.append(Finding(f"a cycle: {text}", "rows flow one way, from sources to sinks", path))
    return findings


def _find_cycles(start: GraphNode, nodes: Mapping[str, GraphNode], done: set[str]) -> list[list[str]]:
    """Iterative depth-first search, because a file may be long. A cycle is listed from each reader to its input."""
    if start.name in done:
        return []
    stack = [(start, iter(_upstream(start, nodes)))]
    trail = [start.name]
    found: list[list[str]] = []
    while stack:
        node, rest = stack[-1]
        above = next(rest, None)
        if above is None:
            stack.pop()
            trail.pop()
            done.add(node.name)
        elif above.name in trail:
            found.append(trail[trail.index(above.name) :])
        elif above.name not in done:
            trail.append(above.name)
            stack.append((above, iter(_upstream(above, nodes))))
    return found


def _dead_letters(nodes: Mapping[str, GraphNode]) -> list[Finding]:
    findings: list[Finding] = []
    for node in nodes.values():
        if not node.dead_letter or (node.group == "sinks" and node.kafka):
            continue
        strangers = sorted(source.name for source in _sources_of(node, nodes) if not source.kafka)
        if strangers:
            whose = "this source is" if strangers == [node.name] else f"{', '.join(strangers)} above it is"
            findings.append(
                Finding(
                    f"dead letters go to the brokers of a kafka source, and {whose} not one",
                    "use `on_error: divert` and a sink that reads the output .bad",
                    (*node.path, "on_error"),
                )
            )
    return findings


def _sources_of(node: GraphNode, nodes: Mapping[str, GraphNode]) -> list[GraphNode]:
    seen = {node.name: node}
    waiting = [node]
    while waiting:
        for above in _upstream(waiting.pop(), nodes):
            if above.name not in seen:
                seen[above.name] = above
                waiting.append(above)
    return [item for item in seen.values() if item.group == "sources"]
