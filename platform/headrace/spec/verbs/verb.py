"""The base of the verbs. A verb is a frozen model that says how a step writes it, and what the step is besides.

A verb's fields hold expressions as text; only their shape is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar

from headrace.core.config import FileModel


class Form(Enum):
    """Where a step writes the fields of its verb.

    VALUE   the verb's only field is the value of its key: `filter: <predicate>`
    BLOCK   they are the fields below its key: `map: {function: .., schema: ..}`
    STEP    they are fields of the step, of which one has the verb's name: `aggregate: {..}`, `key_by: [..]`
    """

    VALUE = "value"
    BLOCK = "block"
    STEP = "step"


class Verb(FileModel):
    """The one thing that a step does.

    NAME           its key in a step
    EXAMPLE        steps of the reference's pipeline, of which the last one has the verb
    BESIDE         the other keys of a step that belong to it (Form.STEP)
    SHORTEST       the shortest value of its key, for a step that has only keys of BESIDE
    NAMES_INPUTS   the value of its key is the list of nodes that it reads, and the step has no `from`
    EXPRESSIONS    the path below its key where the file has expressions or types; None: nowhere
    TAKES_UPDATES  it may read rows that update each other by key; its planner sees to it that the key stays
    """

    NAME: ClassVar[str]
    EXAMPLE: ClassVar[str]
    FORM: ClassVar[Form] = Form.VALUE
    BESIDE: ClassVar[tuple[str, ...]] = ()
    SHORTEST: ClassVar[str] = ""
    NAMES_INPUTS: ClassVar[bool] = False
    EXPRESSIONS: ClassVar[tuple[str, ...] | None] = None
    TAKES_UPDATES: ClassVar[bool] = False

    def file_form(self) -> dict[str, Any]:
        """The keys that it adds to a step in the file, with their values."""
        raise NotImplementedError

    @classmethod
    def has_late(cls, _step: Mapping[str, object]) -> bool:
        """Whether a step with this verb has the side output `late`. step: its file form, perhaps with mistakes."""
        return False

    @property
    def named_inputs(self) -> tuple[str, ...]:
        """The nodes that it names itself (NAMES_INPUTS)."""
        return ()

    @property
    def functions(self) -> tuple[str, ...]:
        """The import paths of the user's functions that it calls."""
        return ()
