"""A verb is one thing: its files and two tables name it, and everything else asks the step's config or model. The rest
of what a verb needs is here as a list: pages and tests that have a line of each."""

from __future__ import annotations

import ast
import re

import pytest

from headrace.plan.verbs.table import PLANNERS
from headrace.spec.verbs.table import VERBS
from support.repository import ROOT
from tidy.house import classes_asked, config_tests, verb_names

NAMING = {"headrace.api", "headrace.api.builder", "headrace.core.text.synonyms"}
"""Modules that offer verbs to users by name: the builder's methods, and what other tools call a verb."""
OTHER_WORDS = {
    "headrace.deployment.kubernetes.manifests drop",
    "headrace.formats.avro.schema map",
    "headrace.formats.avro.schema union",
    "headrace.state.snapshot union",
}
"""Words of other vocabularies: capabilities of Linux, types of Avro, kinds of state."""
LINES = {
    "README.md": r"\*\*Steps:\*\*[^*]*\bVERB\b",
    "docs/pipeline-file.md": r"^\| `VERB` \| `VERB: ",
    "docs/python-api.md": r"`s\.VERB\(name",
    "tests/flows/*.yaml": r"^    VERB:",
    "tests/typing/api_usage.py": r"\.VERB\(",
    "tests/unit/plan/test_explain.py": r'"VERB": ',
    "tests/unit/plan/test_updating_rows.py": r'"VERB": ',
    "tests/unit/spec/test_pipeline.py": r'"VERB": ',
    "tests/unit/spec/test_refusals.py": r"\bstep\([^\n]*\bVERB=",
}
"""Files -> what one of them has for each verb."""


def test_no_module_asks_for_the_class_of_a_config_or_a_verb() -> None:
    assert config_tests() == []


def test_questions_for_a_class_are_found() -> None:
    text = """
from headrace.spec import verbs
from headrace.spec.verbs.map import Map
from sqlglot import exp

isinstance(a, Map | None), isinstance(a, verbs.Filter), isinstance(a, exp.Filter), b is Map
match a:
    case verbs.Union():
        pass
"""
    assert sorted(name for _, name, _ in classes_asked(ast.parse(text))) == ["Filter", "Map", "Map", "Union"]


def test_no_module_names_a_verb_but_its_own_files() -> None:
    named = verb_names(VERBS)
    assert {f"headrace.api.builder {name}" for name in VERBS} <= set(named), "each verb has a method of the builder"
    assert [each for each in named if each.split()[0] not in NAMING and each not in OTHER_WORDS] == []


def test_each_verb_has_a_planner() -> None:
    assert list(PLANNERS) == list(VERBS.values())


@pytest.mark.parametrize("files", LINES)
def test_each_verb_has_its_line(files: str) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(files)))
    missing = [verb for verb in VERBS if not re.search(LINES[files].replace("VERB", verb), text, re.MULTILINE)]
    assert missing == [], f"add each to {files}"
