"""The limits of a topic, from its settings as brokers of several versions list them."""

from __future__ import annotations

import pytest

from headrace_connectors.kafka.clients.topic_limits import TopicLimits, limits_of

NONE = str(2**63 - 1)


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, TopicLimits()),
        ({"cleanup.policy": "compact,delete"}, TopicLimits(compacted=True)),
        ({"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}, TopicLimits()),
        ({"message.timestamp.type": "LogAppendTime"}, TopicLimits(assigns_times=True)),
        ({"message.timestamp.difference.max.ms": "60"}, TopicLimits(before_max_ms=60, after_max_ms=60)),
        (
            {"message.timestamp.before.max.ms": NONE, "message.timestamp.after.max.ms": "3600000"},
            TopicLimits(after_max_ms=3_600_000),
        ),
        ({"message.timestamp.before.max.ms": None}, TopicLimits()),
    ],
)
def test_the_limits_in_a_topics_settings(settings: dict[str, str | None], limits: TopicLimits) -> None:
    assert limits_of(settings) == limits
