"""Keys that are misspelt, or words of other systems, are read as what they mean; so are nodes in a list.

So all mistakes below such a key are found at once, and none is invented: neither that the key it means is missing, nor
that the nodes below it are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.spec.findings import Finding, Path
from headrace.spec.wording import meant_key, unknown_key


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
        if isinstance(nodes, list) and (names := _names(nodes)):
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


def _names(nodes: Sequence[object]) -> list[str]:
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
