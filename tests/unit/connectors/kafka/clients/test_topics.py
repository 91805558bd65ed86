"""Missing topics are named together, with how to create them."""

from __future__ import annotations

from headrace_connectors.kafka.clients.topics import missing_topic, missing_topics


def test_one_missing_topic_comes_with_the_nearest_name() -> None:
    error = missing_topics(["flight"], "here:9092", ["flights", "__consumer_offsets"])
    assert str(error) == (
        "topic 'flight' does not exist at here:9092\n"
        "  did you mean 'flights'? create it with `headrace kafka create flight`; topics there: flights"
    )
    assert str(error) == str(missing_topic("flight", "here:9092", ["flights"]))


def test_all_missing_topics_of_a_source_are_in_one_error() -> None:
    error = missing_topics(["orders", "parcels"], "here:9092", [])
    assert str(error) == (
        "topics 'orders', 'parcels' do not exist at here:9092\n"
        "  create them with `headrace kafka create orders` and `headrace kafka create parcels`; it has no topics"
    )


def test_a_sink_may_create_its_topic() -> None:
    assert "`create_topic: {partitions: 1}`" in str(missing_topic("out", "here:9092", [], sink="out"))
