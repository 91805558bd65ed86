"""Names of subjects, as Confluent's strategies make them."""

from __future__ import annotations

from typing import get_args

import pytest
from confluent_kafka.schema_registry import (
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.connect.format import Side
from headrace.core.errors import UserError
from headrace.formats.registry.subjects import Strategy, check_subject, context_subject, in_context, subject_name

CONFLUENTS = {
    "topic": topic_subject_name_strategy,
    "record": record_subject_name_strategy,
    "topic_record": topic_record_subject_name_strategy,
}


@pytest.mark.parametrize("side", get_args(Side))
@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_names_are_confluents(strategy: Strategy, side: Side) -> None:
    context = SerializationContext("orders", MessageField.KEY if side == "key" else MessageField.VALUE)
    ours = subject_name(strategy, topic="orders", record="shop.Order", side=side)
    assert ours == CONFLUENTS[strategy](context, "shop.Order")


@pytest.mark.parametrize(
    ("strategy", "topic", "record"), [("topic", None, "r"), ("topic_record", None, "r"), ("record", "t", None)]
)
def test_what_a_strategy_takes_must_be_known(strategy: Strategy, topic: str | None, record: str | None) -> None:
    with pytest.raises(UserError) as caught:
        subject_name(strategy, topic=topic, record=record, side="value")
    assert caught.value.remedy


def test_a_context_qualifies_names_that_have_none() -> None:
    assert in_context("orders-value", None) == "orders-value"
    assert in_context("orders-value", "eu") == ":.eu:orders-value"
    assert in_context(":.us:orders-value", "eu") == ":.us:orders-value"
    assert (context_subject(None), context_subject("eu"), context_subject(".eu")) == (None, ":.eu:", ":.eu:")


@pytest.mark.parametrize("subject", ["", ".", "..", "a\nb"])
def test_subjects_that_are_other_paths_of_a_url_are_refused(subject: str) -> None:
    with pytest.raises(UserError):
        check_subject(subject)
