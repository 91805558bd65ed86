"""The identity of a replay: the same command finds the unfinished job of an earlier one, and starts over if that one
has ended.

    <storage>/replay-<pipeline>-<key>-<n>     key: hash of the pipeline and its options; n: number of the run, from 1

Runs that publish nothing have other names (`driver.unpublished`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.paths import job_url
from headrace.checkpoint.stores.opening import open_store
from headrace.core.source_state import AppliedFloor
from headrace.spark.driver.unpublished import replays_prefix


def replay_key(
    document: Mapping[str, Any], options: Mapping[str, str | bool | None], floors: Iterable[AppliedFloor] = ()
) -> str:
    """Returns 8 hex digits of a hash over a pipeline's file form and its options. Secrets enter the hash only.

    floors   of an earlier run, passed by the user: they decide which rows are late
    """
    told = [dataclasses.astuple(floor) for floor in sorted(floors)]
    text = json.dumps([document, options, *([told] if told else ())], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def replay_job(storage: str, pipeline: str, key: str) -> str:
    """Returns the id of the unfinished replay of that key, else of a new one. Blocking."""
    prefix = f"{replays_prefix(pipeline)}{key}-"
    found = open_store(storage).list(prefix)
    numbers = {int(match[1]) for path in found if (match := re.match(re.escape(prefix) + r"(\d+)/", path))}
    newest = max(numbers, default=0)
    if newest:
        job = f"{prefix}{newest}"
        journal = JournalStore(open_store(job_url(storage, job)), "", "").load()
        if journal.finished is None:
            return job
    return f"{prefix}{newest + 1}"
