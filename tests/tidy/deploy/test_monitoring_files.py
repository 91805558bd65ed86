"""The Grafana board and the alert rules of deploy/standalone name metrics and labels that exist, in valid PromQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
from ruamel.yaml import YAML

from headrace.coordinator.monitoring.definitions import METRICS
from support.repository import ROOT

FOLDER = ROOT / "deploy/standalone"
BOARD: dict[str, Any] = json.loads((FOLDER / "grafana-board.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in YAML(typ="safe").load(FOLDER / "alerts.yaml")["groups"] for rule in group["rules"]
]
LABELS = {metric.name: set(metric.labels) for metric in METRICS}
GRAFANA = {"$__rate_interval": "1m", "$job": "a"}
"""Variables of Grafana, and what stands for them here."""
TEMPLATE = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def _board() -> Iterator[tuple[str, str, str]]:
    """(title, expression, texts with labels) of each query."""
    for panel in _panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in GRAFANA.items():
                expression = expression.replace(name, value)
            yield panel["title"], expression, target["legendFormat"]


def _queries() -> list[tuple[str, str, str]]:
    rules = [(rule["alert"], rule["expr"], " ".join(rule["annotations"].values())) for rule in RULES]
    return [*_board(), *rules]


def _selectors(expression: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def note(part: promql_parser.Expr) -> None:
        # of a range the selector in it is visited, too
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(expression), note)
    return found


@pytest.mark.parametrize(("title", "expression", "texts"), _queries(), ids=[query[0] for query in _queries()])
def test_a_query_parses_and_names_metrics_and_labels_that_exist(title: str, expression: str, texts: str) -> None:
    selectors = _selectors(expression)
    names = {str(selector.name) for selector in selectors}
    assert names and names <= LABELS.keys()
    # an expression that is not seen as a selector is not checked: every name in the text must be one
    assert set(re.findall(r"headrace_\w+", expression)) == names
    for selector in selectors:
        assert {matcher.name for matcher in selector.matchers.matchers} <= LABELS[str(selector.name)]
    grouped = {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(", ")}
    known = set.intersection(*(LABELS[name] for name in names))
    assert grouped <= known
    # a sum without `by` has no labels
    left = grouped if grouped else (set() if expression.startswith(("sum(", "absent(")) else known)
    assert set(TEMPLATE.findall(texts)) <= left


def test_every_metric_is_on_the_board() -> None:
    shown = {str(each.name) for _, expression, _ in _board() for each in _selectors(expression)}

    assert set(LABELS) - shown == set()


def test_panels_do_not_overlap_and_have_titles() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["title"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_the_list_of_jobs_comes_from_a_metric() -> None:
    (variable,) = [each for each in BOARD["templating"]["list"] if each["type"] == "query"]
    matched = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
    assert matched is not None and matched[2] in LABELS[matched[1]]


def test_every_rule_says_what_to_do() -> None:
    assert all(set(rule) <= {"alert", "expr", "for", "labels", "annotations"} for rule in RULES)
    assert all(rule["labels"]["severity"] in {"critical", "warning", "info"} for rule in RULES)
    assert all(set(rule["annotations"]) == {"summary", "description"} for rule in RULES)
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    assert all(re.fullmatch(r"\d+[sm]", rule.get("for", "1m")) for rule in RULES)


def test_what_is_wrong_would_be_found() -> None:
    with pytest.raises(ValueError, match="paren"):
        promql_parser.parse("sum(headrace_slots")
    assert [str(each.name) for each in _selectors("sum(rate(headrace_gone_total[1m])) / headrace_slots")] == [
        "headrace_gone_total",
        "headrace_slots",
    ]
