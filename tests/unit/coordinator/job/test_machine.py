"""The stories in tests/transcripts, played: what the machine does is what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.control.transcript import played
from support.repository import ROOT

STORIES = sorted((ROOT / "tests" / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_machine_does_what_the_transcript_says(story: Path, request: pytest.FixtureRequest) -> None:
    told = story.read_text()
    now = played(told)
    if request.config.getoption("rewrite_transcripts"):
        story.write_text(now)
        return
    assert now == told
