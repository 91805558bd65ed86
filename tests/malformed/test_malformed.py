"""Each malformed pipeline file gives exactly the text beside it: place, what is wrong, what to do.

`NN-name.yaml` is the file, `NN-name.expected` what a user sees; `{verbs}` in it stands for the list of all verbs,
`{takers}` for those that read updating rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.plan.every_problem import every_problem
from headrace.plan.logical import plan_logical
from headrace.spec.reading.load import PartlyReadError
from headrace.spec.reading.load_file import load_pipeline
from headrace.spec.verbs.table import VERBS

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_malformed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)

    with pytest.raises(UserError) as raised:
        try:
            loaded = load_pipeline(Path(file.name), environ={})
        except PartlyReadError as error:
            raise every_problem(error) from error
        plan_logical(loaded.pipeline, loaded)

    expected = file.with_suffix(".expected").read_text(encoding="utf-8")
    takers = [name for name, verb in VERBS.items() if verb.TAKES_UPDATES]
    expected = expected.replace("{verbs}", ", ".join(VERBS)).replace("{takers}", ", ".join(takers))
    assert f"{raised.value}\n" == expected
