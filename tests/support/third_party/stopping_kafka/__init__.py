"""The Kafka sink with places to stop at: what it does at a barrier, a commit and a recovery, a step at a time.

A test creates `<points>/stop-at-<point>`, which holds a wish's number; the first process that comes to that point
writes `<points>/at-<point>-<wish>` and waits there until the wish is gone, or it is killed. It does nothing that the
Kafka sink does not do.

    before-flush  after-flush  before-describe  after-describe  before-commit  mid-commit  after-commit  after-record
    before-fence  after-fence
    before-share-<subtask>  after-share-<subtask>      of a share's publication
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.connect.publisher import Publisher, Share
from headrace.connect.registry import Connector
from headrace.connect.sink import Committable, CommittedWriter, Committer, SinkBatch, SinkContext, Writer
from headrace_connectors.kafka import KafkaSinkConfig

POLL_S = 0.02


class Points:
    """The folder through which a test says where to stop."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def reach(self, point: str) -> None:
        """Stops here if that is wanted, and nobody stands here already."""
        if not (wish := self._wish(point)):
            return
        try:
            with (self._folder / f"at-{point}-{wish}").open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        while self._wish(point) == wish:
            time.sleep(POLL_S)

    def _wish(self, point: str) -> str:
        """Empty: nobody is to stop there."""
        try:
            return (self._folder / f"stop-at-{point}").read_text()
        except FileNotFoundError:
            return ""


class StoppingWriter:
    """A writer that may stop at a barrier, and when it hears of a commit."""

    def __init__(self, inner: Writer, points: Points) -> None:
        assert isinstance(inner, CommittedWriter), "a transactional writer hears of commits"
        self._inner, self._points = inner, points

    def write(self, batch: SinkBatch) -> None:
        """As the Kafka sink's."""
        self._inner.write(batch)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """As the Kafka sink's."""
        self._points.reach("before-flush")
        prepared = self._inner.flush(epoch)
        self._points.reach("after-flush")
        return prepared

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """As the Kafka sink's."""
        self._points.reach("after-record")
        self._inner.committed(epoch, successors)

    def close(self) -> None:
        """As the Kafka sink's."""
        self._inner.close()


class StoppingCommitter:
    """A committer that may stop before, between and after its requests. What is not here is the Kafka sink's."""

    def __init__(self, inner: Committer, points: Points) -> None:
        self._inner, self._points = inner, points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """As the Kafka sink's."""
        self._points.reach("before-describe")
        described = self._inner.describe(committables)
        self._points.reach("after-describe")
        return described

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """As the Kafka sink's, but the first one goes alone."""
        self._points.reach("before-commit")
        lost = list(self._inner.commit(committables[:1]))
        if len(committables) > 1:
            self._points.reach("mid-commit")
            lost += self._inner.commit(committables[1:])
        self._points.reach("after-commit")
        return lost

    def fence(self, names: Sequence[str]) -> None:
        """As the Kafka sink's."""
        self._points.reach("before-fence")
        self._inner.fence(names)
        self._points.reach("after-fence")

    def sweep(self, attempt: int) -> Sequence[str]:
        """As the Kafka sink's."""
        return self._inner.sweep(attempt)

    def close(self) -> None:
        """As the Kafka sink's."""
        self._inner.close()


class StoppingPublisher:
    """A publisher that may stop when all rows of the share are visible."""

    def __init__(self, inner: Publisher, points: Points, share: int) -> None:
        self._inner, self._points, self._share = inner, points, share

    @property
    def published(self) -> int:
        """As the Kafka sink's."""
        return self._inner.published

    def write(self, batch: SinkBatch) -> None:
        """As the Kafka sink's."""
        self._inner.write(batch)

    def finish(self) -> None:
        """As the Kafka sink's."""
        self._inner.finish()
        self._points.reach(f"after-share-{self._share}")

    def close(self) -> None:
        """As the Kafka sink's."""
        self._inner.close()


class StoppingSinkConfig(KafkaSinkConfig):
    """Writes records to a topic, and stops where it is told."""

    points: str

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher:
        """The Kafka sink's, with places to stop at."""
        points = Points(self.points)
        points.reach(f"before-share-{context.subtask}")
        return StoppingPublisher(super().open_publisher(context, share), points, context.subtask)

    def open_writer(self, context: SinkContext) -> Writer:
        """The Kafka sink's, with places to stop at."""
        return StoppingWriter(super().open_writer(context), Points(self.points))

    def open_committer(self, context: SinkContext) -> Committer | None:
        """The Kafka sink's, with places to stop at."""
        inner = super().open_committer(context)
        return None if inner is None else StoppingCommitter(inner, Points(self.points))


CONNECTOR = Connector(
    name="stopping_kafka",
    summary="Kafka topics, with places to stop at",
    sink=StoppingSinkConfig,
    example_sink="""\
stopping_kafka:
  brokers: localhost:9092
  topic: delays
  delivery: exactly-once
  points: /tmp/points
format: json
""",
)
