"""The versions of librdkafka that this connector is tested with. Pure.

pyproject.toml has the same range as versions of confluent-kafka, which bundles the librdkafka of the same minor
version. `make libraries` runs the connector's tests with the lowest and the highest version of the range.
"""

from __future__ import annotations

Version = tuple[int, int, int]

TESTED_FROM: Version = (2, 11, 0)
TESTED_BELOW: Version = (2, 17, 0)
CONFLUENT_KAFKA = "confluent-kafka>=2.11,<2.17"


def version_of(number: int) -> Version:
    """The version that `rd_kafka_version()` packs into a number: `0x021000ff` is 2.16.0."""
    return number >> 24 & 0xFF, number >> 16 & 0xFF, number >> 8 & 0xFF


def version_text(version: Version) -> str:
    """`2.16.0`."""
    return ".".join(map(str, version))


def is_tested(version: Version) -> bool:
    """Whether the version lies within the tested range."""
    return TESTED_FROM <= version < TESTED_BELOW
