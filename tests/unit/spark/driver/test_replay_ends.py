"""A replay that ends at a savepoint's positions reads the log that these positions are of."""

from __future__ import annotations

import pytest

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import UserError
from headrace.spark.driver.replay import require_same_logs
from support.storage.checkpoints import manifest


def splits(identity: str) -> dict[str, tuple[SplitDocument, ...]]:
    return {"s": (SplitDocument(topic="t", partition=0, start=0, identity=identity),)}


@pytest.mark.parametrize(("then", "now"), [("c/1", "c/1"), ("", "c/1"), ("c/1", "")])
def test_a_log_that_is_the_same_or_not_known(then: str, now: str) -> None:
    require_same_logs(splits(now), manifest(3).model_copy(update={"splits": splits(then)}))
    require_same_logs(splits(now), None)


def test_another_log_is_refused() -> None:
    with pytest.raises(UserError, match="topic t is another one than it was then"):
        require_same_logs(splits("c/2"), manifest(3).model_copy(update={"splits": splits("c/1")}))
