"""A flow as a project that is sent to a cluster: a pipeline file with a module beside it, and results in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from support.flows.site import Flow

FLOW = Flow("sliding")
AS_THEY_ARE = """\
from its_helper import same


def as_they_are(rows):
    return same(rows)
"""
"""The function that rows pass; it needs a module beside its own."""


def write_project(
    folder: Path, *, storage: str | None = None, module: str = AS_THEY_ARE, helper: Path | None = None
) -> Path:
    """The pipeline file in `folder`.

    storage  folder of results and checkpoints; None: results in `folder`
    module   what `mine.py` beside it is; helper: folder of the module that it needs; None: beside it too
    """
    place = folder if helper is None else helper
    place.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(module)
    (place / "its_helper.py").write_text("def same(rows):\n    return rows\n")
    out = "out" if storage is None else f"{storage}/out"
    document = FLOW.load({"OUT": out}).to_dict()
    columns = {
        name: str(dtype).removesuffix(" not null") for name, dtype in document["sources"]["orders"]["schema"].items()
    }
    document["steps"]["mine"] = {"from": "orders", "map": {"function": "mine:as_they_are", "schema": columns}}
    document["steps"]["recent"]["from"] = "mine"
    if storage is not None:
        document["checkpoint"] = {"storage": f"{storage}/checkpoints"}
    path = folder / "pipeline.yaml"
    path.write_text(json.dumps(document))
    return path


def check_results(out: Path) -> None:
    """There are the rows of the golden, each once."""
    written = {
        sink: [row for file in (out / sink).glob("part-*") for row in pl.read_ndjson(file).to_dicts()]
        for sink in ("recent_orders", "late")
    }
    assert FLOW.canonical(written) == FLOW.golden.read_text().splitlines()
    assert not any(FLOW.repeated(written).values())
