"""Committed offsets are read again while a group's coordinator moves; an unknown offset is not none."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace_connectors.kafka.clients.client import ClientWatch
from headrace_connectors.kafka.clients.committed_offsets import committed_offsets

ASKED = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Answer(TopicPartition):
    """A partition of an answer, with an error of its own."""

    error: KafkaError | None = None

    def __init__(self, partition: int, offset: int, code: int | None = None) -> None:
        super().__init__("t", partition, offset)
        self.error = None if code is None else KafkaError(code)


class Group:
    """Answers in turn: an error code, or partitions. `asked`: how often."""

    def __init__(self, *answers: int | list[TopicPartition]) -> None:
        self._answers = list(answers)
        self.asked = 0

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """The next answer."""
        assert partitions == ASKED
        assert timeout > 0
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def poll(self, timeout: float) -> object:
        """Nothing is reported."""
        return timeout


def read(group: Group, patience_s: float = 60.0) -> list[int]:
    found = committed_offsets(group, ASKED, ClientWatch("127.0.0.1:1"), patience_s=patience_s)
    return [each.offset for each in found]


@pytest.mark.parametrize(
    "transient",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        [Answer(0, -1001, KafkaError.UNSTABLE_OFFSET_COMMIT), Answer(1, 7)],
    ],
)
def test_a_group_whose_coordinator_moves_is_asked_again(transient: int | list[TopicPartition]) -> None:
    group = Group(transient, [Answer(0, 5), Answer(1, -1001)])
    assert read(group) == [5, -1001]
    assert group.asked == 2


@pytest.mark.parametrize(
    "refusal",
    [KafkaError.GROUP_AUTHORIZATION_FAILED, [Answer(0, 5), Answer(1, -1001, KafkaError.UNKNOWN_TOPIC_OR_PART)]],
)
def test_an_error_that_stays_is_raised_at_once(refusal: int | list[TopicPartition]) -> None:
    group = Group(refusal)
    with pytest.raises(KafkaException):
        read(group)
    assert group.asked == 1


def test_a_coordinator_that_never_answers_is_given_up() -> None:
    with pytest.raises(KafkaException) as raised:
        read(Group(KafkaError.NOT_COORDINATOR), patience_s=0.0)
    assert raised.value.args[0].code() == KafkaError.NOT_COORDINATOR


def test_no_partition_needs_no_request() -> None:
    assert committed_offsets(Group(KafkaError._ALL_BROKERS_DOWN), [], ClientWatch("127.0.0.1:1")) == []
