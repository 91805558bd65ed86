"""Merges a user's pod template into ours. Pure.

Mappings are merged field by field, and what the user gives wins. Lists whose entries have a name (containers, volumes,
environment variables, ports) are merged entry by entry, volume mounts by their path. Any other list, such as
tolerations, is the user's if there is one. So a template adds a side car, a toleration or a variable without repeating
ours, as `kubectl patch` does by its strategic merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeGuard

from headrace.core.errors import UserError

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""List -> the field that identifies its entries: those of Kubernetes' own merge."""
_FIELDS = {"metadata", "spec"}


def checked_template(document: object, where: str) -> Mapping[str, Any]:
    """The pod template in a document: a Pod, a PodTemplate, or only `metadata` and `spec`. where: named in errors.

    Raises UserError.
    """
    if not isinstance(document, Mapping):
        raise UserError(f"{where} is no pod template", remedy="write a mapping with `spec`, as in a Deployment")
    kind = document.get("kind")
    found = document.get("template") if kind == "PodTemplate" else document
    if kind not in {None, "Pod", "PodTemplate"} or not isinstance(found, Mapping):
        raise UserError(f"{where} is a {kind}, not a pod template", remedy="write a Pod, or `metadata` and `spec`")
    unknown = found.keys() - _FIELDS - {"apiVersion", "kind"}
    if unknown:
        raise UserError(
            f"{where}: {min(unknown)!r} is no field of a pod template", remedy="write `metadata` and `spec`"
        )
    if not all(isinstance(found.get(name, {}), Mapping) for name in _FIELDS):
        raise UserError(f"{where} is no pod template", remedy="`metadata` and `spec` are mappings")
    return {name: found[name] for name in sorted(_FIELDS) if name in found}


def merged(ours: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ours with what the user gives. A field that the user sets to null is left out."""
    found = deepcopy(dict(ours))
    for name, value in users.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            before = found.get(name)
            found[name] = merged(before if isinstance(before, Mapping) else {}, value)
        elif name in _KEYS and _are_mappings(value):
            before = found.get(name)
            found[name] = _merged_lists(before if _are_mappings(before) else [], value, _KEYS[name])
        else:
            found[name] = deepcopy(value)
    return found


def without_container(template: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns the template without the container of that name."""
    spec = template.get("spec", {})
    if not _are_mappings(spec.get("containers")):
        return template
    others = [each for each in spec["containers"] if each.get("name") != name]
    return {**template, "spec": {**spec, "containers": others}}


def _are_mappings(value: object) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _merged_lists(ours: list[Mapping[str, Any]], users: list[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """Returns ours in their order, each with the user's entry of the same key; then what only the user has.

    Entries with the same key, such as a port of two protocols, replace ours: nothing identifies ours among them.
    """

    def name(entry: Mapping[str, Any]) -> str:
        return str(entry.get(key))

    given = Counter(map(name, users))
    single = {name(each): each for each in users if given[name(each)] == 1}
    several = [each for each in users if given[name(each)] > 1]
    known = set(map(name, ours))
    both = [merged(each, single.get(name(each), {})) for each in ours if given[name(each)] <= 1]
    added = [each for each in single.values() if name(each) not in known]
    return [*both, *(merged({}, each) for each in (*added, *several))]
