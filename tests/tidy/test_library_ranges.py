"""Ranges of libraries that are tested at both ends have both ends."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from headrace_connectors.kafka.librdkafka.tested_versions import (
    CONFLUENT_KAFKA,
    TESTED_BELOW,
    TESTED_FROM,
    version_text,
)
from libraries.entries import LIBRARIES, declared, lowest
from support.repository import ROOT


@pytest.mark.parametrize("name", [each.name for each in LIBRARIES])
def test_a_tested_range_has_both_ends(name: str) -> None:
    operators = sorted(item.operator for item in declared(name).specifier)
    assert operators == ["<", ">="]
    assert declared(name).specifier.contains(lowest(name))


@pytest.mark.parametrize("path", sorted({path for each in LIBRARIES for path in each.tests}))
def test_its_tests_are_there(path: str) -> None:
    assert (ROOT / "tests" / path).exists()


def test_the_connector_checks_for_the_declared_range() -> None:
    assert Requirement(CONFLUENT_KAFKA) == declared("confluent-kafka")
    range_of_library = declared("confluent-kafka").specifier
    assert range_of_library.contains(version_text(TESTED_FROM))
    assert not range_of_library.contains(version_text(TESTED_BELOW))
