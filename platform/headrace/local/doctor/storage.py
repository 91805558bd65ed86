"""Tries checkpoint storage with one small object under a name of its own, which it deletes again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.connect.access import Finding
from headrace.core.errors import ExternalError, HeadraceError
from headrace.local.doctor import verdicts

_CONTENT = b"headrace doctor"


def check_storage(url: str) -> Sequence[Finding]:
    """Writes, reads, writes again if absent, and deletes. Raises nothing: a failure is a finding."""
    try:
        store = open_store(url)
    except HeadraceError as error:
        return (verdicts.storage(verdicts.StorageFacts(url, error.message, error.remedy)),)
    # beside the folders of jobs, under a name that no job has
    name = f"headrace-doctor-{unique_part()}"
    return (verdicts.storage(_tried(store, url, name)),)


def _tried(store: ObjectStore, url: str, name: str) -> verdicts.StorageFacts:
    replaced = False

    def put_again() -> None:
        nonlocal replaced
        replaced = store.put_if_absent(name, b"another") or store.read(name) != _CONTENT

    def read() -> None:
        if store.read(name) != _CONTENT:
            raise ExternalError("another content was read than was written")

    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("write", lambda: store.put_if_absent(name, _CONTENT)),
        ("read", read),
        ("put-if-absent", put_again),
        ("delete", lambda: store.delete([name])),
    )
    for step, call in steps:
        try:
            call()
        except HeadraceError as error:
            remedy = error.remedy or "check the rights to this storage, and its free space"
            return verdicts.StorageFacts(url, f"{step} failed: {error.message}", remedy)
        except OSError as cause:
            return verdicts.StorageFacts(
                url, f"{step} failed: {cause.strerror or cause}", "give this user the folder, or name another storage"
            )
    return verdicts.StorageFacts(url, replaces=replaced)
