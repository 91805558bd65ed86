"""Which topics count as other ones."""

from __future__ import annotations

import pytest

from headrace.connect.source import Split, SplitId
from headrace_connectors.kafka.clients.log_identity import replaced_topics


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("c/1", "c/1", None),
        ("c/1", "c/2", "it was deleted and made anew (topic id 2, before 1)"),
        ("c/1", "d/2", "b:1 is cluster d now, and was c"),
        # state of an earlier version, a broker without topic ids, a topic that may not be described
        ("", "c/1", None),
        ("c/1", "", None),
    ],
)
def test_a_topic_is_another_one_if_both_sides_are_known_and_differ(before: str, now: str, said: str | None) -> None:
    known = [Split(SplitId("t", number), 5, identity=before) for number in range(2)]
    assert replaced_topics(known, {"t": now}, "b:1").get("t") == said
