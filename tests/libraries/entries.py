"""Which libraries are tested over their declared range, and by which tests.

A library belongs here if this project depends on what its releases have changed before: private or compiled interfaces,
generated code, or results. Each has the smallest set of tests that calls every part of it that the project calls.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from packaging.requirements import Requirement

from support.repository import ROOT


@dataclass(frozen=True, slots=True)
class Library:
    """A library and the tests, below `tests/`, that exercise it."""

    name: str
    tests: tuple[str, ...]


LIBRARIES = (
    Library(
        "confluent-kafka",
        (
            "unit/connectors/kafka/clients/test_client.py",
            "unit/connectors/kafka/librdkafka/test_native_library.py",
            "unit/kernels/kafka/test_produce.py",
            "unit/kernels/kafka/test_take.py",
            "unit/connectors/kafka/transactions/test_errors.py",
            "integration/broker/test_kafka_commands.py",
            "integration/kafka",
            "conformance/test_kafka_publisher.py",
        ),
    ),
    Library(
        "protobuf",
        ("unit/rpc", "unit/worker/slot/test_slot_pipe.py", "integration/worker/test_worker.py"),
    ),
    Library(
        "polars",
        (
            "unit/core",
            "unit/expr",
            "unit/formats",
            "unit/operators",
            "unit/state",
            "flows/test_results.py",
            "flows/test_straight.py",
        ),
    ),
    Library(
        "numpy",
        (
            "unit/connectors/kafka/librdkafka/test_native_library.py",
            "unit/kernels/kafka/test_produce.py",
            "unit/kernels/kafka/test_take.py",
            "unit/connectors/kafka/source/test_runs.py",
            "unit/core",
            "unit/exchange/edge/test_partition.py",
            "unit/exchange/network/test_wire.py",
            "unit/formats",
            "unit/operators",
            "unit/state",
            "integration/kafka/test_consumers.py",
            "flows/test_results.py",
        ),
    ),
)


def declared(name: str) -> Requirement:
    """The range that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    (found,) = [item for text in texts if (item := Requirement(text)).name == name]
    return found


def lowest(name: str) -> str:
    """The lowest version of the declared range: the bound itself. Raises ValueError where it has none."""
    bounds = [item.version for item in declared(name).specifier if item.operator in {">=", "=="}]
    if len(bounds) != 1:
        raise ValueError(f"{name} has no lower bound in pyproject.toml")
    return bounds[0]
