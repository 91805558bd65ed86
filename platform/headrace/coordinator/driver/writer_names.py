"""Names of writers to a job's journal: each driver is one, and its name has the term of its coordinator.

A deposed leader may still put one record into a journal after its successor has read it. Then the successor's first
put fails, and its driver counts as replaced. The term in the other writer's name shows that it is an earlier leader, so
the successor goes on with another driver.
"""

from __future__ import annotations

import re
import secrets

_NAME = re.compile(r"term-(\d+)-[0-9a-f]{16}\Z")


def new_writer(term: int) -> str:
    """A name that no other driver has."""
    return f"term-{term}-{secrets.token_hex(8)}"


def is_of_earlier_term(writer: str | None, term: int) -> bool:
    """Whether a writer is a driver of a coordinator that led before. Others are not: `headrace run`, Spark, and
    coordinators with the same journal and another ledger, of which the one with the higher term goes on."""
    found = None if writer is None else _NAME.match(writer)
    return found is not None and int(found[1]) < term
