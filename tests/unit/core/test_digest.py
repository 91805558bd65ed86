"""`core.digest`: order and split do not matter, everything else does."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.digest import digest_of
from headrace.core.text.digest_text import add_digests, digest_text, digest_value
from support.suite.properties import weighted

Row = tuple[bytes | None, bytes | None]
ROWS = st.lists(st.tuples(st.none() | st.binary(max_size=4), st.none() | st.binary(max_size=12)), max_size=30)


def digest(rows: list[Row]) -> int:
    """Of (key, value) rows."""
    keys = pa.array([key for key, _ in rows], pa.large_binary())
    values = pa.array([value for _, value in rows], pa.large_binary())
    return digest_of(values, keys)


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 30))
def test_order_and_split_do_not_matter(rows: list[Row], random: object, cut: int) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert add_digests(digest(shuffled[:cut]), digest(shuffled[cut:])) == digest(rows)


@given(ROWS, ROWS)
@weighted(2)
def test_other_rows_have_another_digest(one: list[Row], other: list[Row]) -> None:
    def by_place(row: Row) -> tuple[bool, bytes, bool, bytes]:
        return row[0] is None, row[0] or b"", row[1] is None, row[1] or b""

    assert (digest(one) == digest(other)) == (sorted(one, key=by_place) == sorted(other, key=by_place))


def test_a_key_belongs_to_its_value() -> None:
    assert digest([(b"a", b"1"), (b"b", b"2")]) != digest([(b"a", b"2"), (b"b", b"1")])
    assert digest([(b"a", b"b")]) != digest([(b"b", b"a")])
    assert digest([(None, b"a")]) != digest([(b"", b"a")]) != digest([(b"a", None)])


def test_rows_without_keys_have_null_keys() -> None:
    values = pa.array([b"x", None, b"y"], pa.large_binary())
    assert digest_of(values) == digest([(None, b"x"), (None, None), (None, b"y")])
    assert digest_of(values.slice(1, 2)) == digest([(None, None), (None, b"y")])
    assert digest_of(pa.array(["x"], pa.large_string())) == digest([(None, b"x")])


def test_it_is_pinned() -> None:
    """A manifest may be read by a later version."""
    assert digest_text(digest([(b"k", b"v"), (None, b"")])) == PINNED
    assert digest_value(PINNED) == digest([(b"k", b"v"), (None, b"")])
    assert digest_value("") == digest([]) == 0


PINNED = "a42ba6d819e81daeaba074b3c307a362"
