"""A worker obeys the highest term of its cluster, and a cluster that was made anew."""

from __future__ import annotations

from headrace.leadership.candidacy.term_guard import TermGuard


def test_lower_terms_are_not_obeyed() -> None:
    guard = TermGuard()
    seen = [("a", 3), ("a", 3), ("a", 2), ("a", 7), ("a", 3), ("b", 1), ("b", 0), ("a", 1)]
    assert [guard.admits(*each) for each in seen] == [True, True, False, True, False, True, False, True]
