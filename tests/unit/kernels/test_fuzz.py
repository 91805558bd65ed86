"""A short run of each fuzzer, and that one notices: `make fuzz` runs them for long, and under sanitizers."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from fuzz.command import Fuzzer, FuzzError, fuzz
from fuzz.decoding import MESSAGES
from fuzz.json_decode import FUZZER
from fuzz.run import FUZZERS
from headrace.formats.json.decode import RowReader

DOCUMENTS = 2_000


@pytest.mark.parametrize("module", FUZZERS)
def test_nothing_is_found_in_a_short_run(module: str) -> None:
    fuzzer = import_module(module).FUZZER
    assert isinstance(fuzzer, Fuzzer)
    counts = fuzz(fuzzer, 1, range(DOCUMENTS // MESSAGES))
    assert counts["batches"] == DOCUMENTS // MESSAGES
    if "wild messages" in counts:
        assert counts["wild sure"] > counts["wild messages"] / 4 > 0


def test_another_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = RowReader.read

    def read_zeros_without_sign(reader: RowReader, raw: bytes) -> list[object]:
        return [abs(value) if type(value) is float and value == 0 else value for value in read(reader, raw)]

    monkeypatch.setattr(RowReader, "read", read_zeros_without_sign)
    with pytest.raises(FuzzError, match=r"\[-0.0\] and \[0.0\]; message b'") as found:
        fuzz(FUZZER, 1, range(1_000))
    assert "again: PYTHONPATH=tests python -m fuzz.json_decode --seed 1 --batch" in found.value.__notes__[0]


def test_a_kernel_that_leaves_too_much_is_found() -> None:
    with pytest.raises(FuzzError, match="of 2,000 clean messages only 1,900 are sure"):
        FUZZER.verdict(Counter({"clean messages": 2_000, "clean sure": 1_900}))
    with pytest.raises(FuzzError, match="of 2,000 wild messages only 100 are sure"):
        FUZZER.verdict(Counter({"wild messages": 2_000, "wild sure": 100}))
