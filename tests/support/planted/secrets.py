"""Secrets that are planted in variables, and mistakes that would show them: random places of a pipeline that hold one.

Every secret consists of words that stand nowhere else, so that each of them is found wherever it is, in any case.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

SECRETS = 30
_FORMS = (
    "{1}",
    "{0} {1} {2}",
    "{0}-{1}",
    "{0}'{1}\"{2}",
    "{0}\\{1}%{2}",
    "{0}:{1}@{2}/x?y={0}",
    "postgresql://{0}:{1}@127.0.0.1:1/{2}",
    "{0}{1}{2}{0}{1}{2}",
    '{{"user": "{0}", "password": "{1}"}}',
    "{0}\n{1}",
    "{0}, {1}",
    "{0} + {1} > (",
    "SELECT {0} FROM {1}",
    "{0}.{1}:{2}",
    "[{0}, {1}]",
)
_NAMES_OF_OUTPUT = ("path",)
"""A sink's files are where it says: a path is no mistake, whatever its name is."""
_WORD = re.compile(r"zq[bcdfghjklm]{4}[0-9a-z]*", re.IGNORECASE)


def planted() -> dict[str, str]:
    """Variable -> secret; the same ones always."""
    drawn = random.Random(4711)
    words = [f"zq{''.join(drawn.choices('bcdfghjklm', k=4))}{drawn.randrange(10, 100)}v" for _ in range(3 * SECRETS)]
    secrets = {}
    for number in range(SECRETS):
        first, second, third = words[3 * number : 3 * number + 3]
        text = _FORMS[number % len(_FORMS)].format(first, second.upper(), third.title())
        secrets[f"VARIABLE_{number}"] = text
    return secrets


def shown_in(text: str) -> list[str]:
    """The words of secrets in a text, and the long ends of those that were cut."""
    return sorted(set(_WORD.findall(text)))


def shown_in_files(folder: Path) -> dict[str, list[str]]:
    """File -> the words of secrets in it, or in its name."""
    found = {}
    for path in folder.rglob("*"):
        try:
            text = f"{path.relative_to(folder)} " + (path.read_bytes().decode("latin-1") if path.is_file() else "")
        except OSError:
            continue  # it was deleted meanwhile
        if words := shown_in(text):
            found[str(path)] = words
    return found


def mistakes(pipeline: Mapping[str, Any], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Texts of pipelines with secrets in random values, each with the places that hold one."""
    drawn = random.Random(seed)
    names = sorted(planted())
    places = sorted((path for path in _scalars(pipeline) if path[-1] not in _NAMES_OF_OUTPUT), key=str)
    for _ in range(count):
        changed = json.loads(json.dumps(pipeline))
        chosen = drawn.sample(places, drawn.choice((1, 1, 1, 2, 3)))
        for place in chosen:
            first, second = (f"${{{name}}}" for name in drawn.sample(names, 2))
            old = str(_at(changed, place))
            longer = (f"{old}{first}", f"{first} {old}", f"{old} = '{first}'", first + second)
            value = drawn.choice((first, first, *longer))
            _at(changed, place[:-1])[place[-1]] = value
        yield json.dumps(changed, indent=1), ", ".join(map(str, chosen))


def _scalars(data: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    if isinstance(data, dict):
        return [each for key, value in data.items() for each in _scalars(value, (*path, key))]
    if isinstance(data, list):
        return [each for index, value in enumerate(data) for each in _scalars(value, (*path, index))]
    return [path]


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data
