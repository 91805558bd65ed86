"""The connector block of a source or sink: the connector, shared connections, its config, its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from headrace.connect import registry
from headrace.connect.registry import Connector
from headrace.core.errors import UserError, did_you_mean
from headrace.spec.findings import Finding, FindingsError, Path, collecting, joined, wrong
from headrace.spec.wording import file_keys, kind_of, read_model, unknown_key

Side = Literal["source", "sink"]
Connections = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Connection name -> connector name, or `registry` -> fields."""
USE = "use"
REGISTRY = "registry"
"""The kind of connection that formats use: a schema registry."""
_FLAT_KEYS = ("connector", "type", "kind")


def read_connections(data: object, findings: list[Finding]) -> Connections:
    """Reads the `connections:` section. Checks names of connectors, or `registry`, and fields; fields are validated
    where they are used."""
    connections: dict[str, dict[str, Mapping[str, Any]]] = {}
    if data is None:
        return connections
    with collecting(findings, "connections"):
        for name, body in _mapping(data, "a mapping of connection name to connector").items():
            with collecting(findings, "connections", str(name)):
                connections[str(name)] = {}
                for kind, fields in _mapping(body, "a connector, such as kafka: {brokers: ..}").items():
                    with collecting(findings, "connections", str(name), str(kind)):
                        known = _connection_fields(str(kind))
                        given = _mapping(fields, "the connector's fields")
                        connections[str(name)][str(kind)] = {key: given[key] for key in given if key in known}
                        _check_connection(given, known)
    return connections


def _mapping(data: object, takes: str, remedy: str | None = None) -> Mapping[Any, Any]:
    if not isinstance(data, Mapping):
        raise wrong(f"takes {takes}, not {kind_of(data)}", remedy)
    return data


def _connection_fields(kind: str) -> tuple[str, ...]:
    if kind == REGISTRY:
        from headrace.formats.registry.connection import RegistryConnection

        return file_keys(RegistryConnection)
    return _known_fields(_connector(kind))


def with_registries(body: Mapping[str, Any], connections: Connections) -> Mapping[str, Any]:
    """The body of a node whose formats have the fields of the connection that their `registry: {use: ..}` names.

    Raises FindingsError with paths inside the node.
    """
    findings: list[Finding] = []
    whole = dict(body)
    for key in ("format", "key_format"):
        use = body.get(key)
        if isinstance(use, Mapping) and len(use) == 1:
            ((name, options),) = use.items()
            registry_ = options.get(REGISTRY) if isinstance(options, Mapping) else None
            if isinstance(registry_, Mapping) and USE in registry_:
                with collecting(findings, key, str(name), REGISTRY):
                    own = {field: registry_[field] for field in registry_ if field != USE}
                    shared = merge(_shared(registry_, REGISTRY, connections), own)
                    whole[key] = {name: {**options, REGISTRY: shared}}
    if findings:
        raise FindingsError(findings)
    return whole


def _check_connection(fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    strangers = [unknown_key(str(key), known) for key in fields if key not in known]
    if strangers:
        raise FindingsError(strangers)


def _known_fields(connector: Connector) -> tuple[str, ...]:
    models = [model for model in (connector.source, connector.sink) if model is not None]
    return tuple(dict.fromkeys(key for model in models for key in file_keys(model)))


def _connector(name: str) -> Connector:
    try:
        return registry.connector(name)
    except UserError as error:
        raise wrong(error.message, error.remedy, on_key=True) from error


def read_connector(
    body: Mapping[str, Any], own: tuple[str, ...], side: Side, connections: Connections
) -> tuple[str, Any]:
    """Reads the one connector of a node whose other keys are `own`: its name and its config.

    Raises FindingsError with paths inside the node; a mistake in a shared connection is reported at the connection.
    """
    findings: list[Finding] = []
    name = _only_connector(body, own, side, findings)
    if name is None:
        raise FindingsError(findings)
    connector = _connector_at(name)
    model = connector.source if side == "source" else connector.sink
    if model is None:
        other = "sinks" if side == "source" else "sources"
        raise wrong(f"connector {name!r} is for {other} only", None, name, on_key=True)
    with collecting(findings):
        _check_format(body, name, model.takes_format)
    fields = body[name]
    shared: Mapping[str, Any] = {}
    broken = len(findings)
    with collecting(findings, name):
        fields = {} if fields is None else _mapping(fields, "its fields as a mapping", f"`{name}: {{}}` has none")
        shared = _shared(fields, name, connections)
    if len(findings) > broken:
        raise FindingsError(findings)
    # reported by `_only_connector`; read here, so that they are not missing as well
    beside = {key: body[key] for key in file_keys(model) if key in body and key not in (*own, *fields)}
    given = {key: fields[key] for key in fields if key != USE} | beside
    try:
        config = read_model(model, merge(_only_of(shared, file_keys(model), connector), given))
    except FindingsError as found:
        findings.extend(
            finding if finding.path[:1] and finding.path[0] in beside else _blamed(finding, fields, shared, name)
            for finding in found.findings
        )
    if findings:
        raise FindingsError(findings)
    return name, config


def _connector_at(name: str) -> Connector:
    findings: list[Finding] = []
    with collecting(findings, name):
        return _connector(name)
    raise FindingsError(findings)


def _only_connector(body: Mapping[str, Any], own: tuple[str, ...], side: Side, findings: list[Finding]) -> str | None:
    installed = registry.connector_names()
    strangers = [str(key) for key in body if key not in own]
    found = [key for key in strangers if key in installed]
    if not found:
        _refuse_flat(body, strangers, installed)
    if len(found) > 1:
        message = f"a {side} has one connector, and this one has {len(found)}: {', '.join(found)}"
        findings.append(Finding(message, f"make a {side} of each", (found[1],), on_key=True))
    for key in strangers:
        if key in found:
            continue
        near_own = did_you_mean(key, own)
        if len(found) == 1 and key in _known_fields(_connector_at(found[0])):
            beside = f"{key!r} is a setting of {found[0]}"
            findings.append(Finding(beside, f"write it below `{found[0]}:`", (key,), on_key=True))
        elif found or near_own:
            findings.append(unknown_key(key, own if found else (*own, *installed)))
        else:
            remedy = joined(did_you_mean(key, installed), f"installed connectors: {', '.join(installed)}")
            findings.append(Finding(f"unknown connector {key!r}", remedy, (key,), on_key=True))
    if not strangers or (not found and not findings):
        findings.append(Finding(f"the {side} has no connector", f"add one of {', '.join(installed)}"))
    return found[0] if len(found) == 1 else None


def _refuse_flat(body: Mapping[str, Any], strangers: Sequence[str], installed: Sequence[str]) -> None:
    """Refuses `connector: kafka` with its settings beside it, as in other systems: one mistake, not one a setting."""
    for key in _FLAT_KEYS:
        name = body.get(key)
        if isinstance(name, str) and name in installed:
            settings = ", ".join(each for each in strangers if each not in _FLAT_KEYS)
            remedy = f"write `{name}:` and below it its settings" + (f": {settings}" if settings else "")
            raise wrong(f"a connector is named by a key, not by {key!r}", remedy, key, on_key=True)


def _check_format(body: Mapping[str, Any], name: str, takes: str) -> None:
    given = body.get("format") is not None
    if takes == "required" and not given:
        formats = ", ".join(registry.format_names())
        raise wrong("missing 'format'", f"connector {name!r} needs one beside it; installed formats: {formats}")
    if takes == "no" and given:
        raise wrong(f"connector {name!r} takes no format", "remove `format:`", "format", on_key=True)


def _shared(fields: Mapping[str, Any], name: str, connections: Connections) -> Mapping[str, Any]:
    if USE not in fields:
        return {}
    use = fields[USE]
    if not isinstance(use, str) or use not in connections:
        names = tuple(connections)
        near = did_you_mean(use, names) if isinstance(use, str) else None
        remedy = joined(near, f"connections: {', '.join(names) or 'none'}")
        raise wrong(f"there is no connection {use!r}", remedy, USE)
    if name not in connections[use]:
        kinds = ", ".join(connections[use]) or "nothing"
        raise wrong(f"connection {use!r} holds no {name!r}", f"it holds {kinds}", USE)
    return connections[use][name]


def _only_of(shared: Mapping[str, Any], keys: tuple[str, ...], connector: Connector) -> dict[str, Any]:
    """The fields for this side: a connection serves sources and sinks, so fields of the other side are dropped."""
    other_side = [key for key in _known_fields(connector) if key not in keys]
    return {key: value for key, value in shared.items() if key not in other_side}


def merge(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`own` over `shared`; mappings present in both are merged."""
    merged = dict(shared)
    for key, value in own.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = {**below, **value} if both and isinstance(below, Mapping) else value
    return merged


def _blamed(finding: Finding, fields: Mapping[str, Any], shared: Mapping[str, Any], name: str) -> Finding:
    key: Path = finding.path[:1]
    if key and key[0] in shared and key[0] not in fields:
        return Finding(
            finding.message,
            joined(finding.remedy, f"it comes from connection {fields[USE]!r}"),
            (name, USE),
            on_key=False,
        )
    return finding.under(name)
