"""The recipe of the image in deploy/k8s fits the package and the pods that run it. Building it is in the full tier."""

from __future__ import annotations

import re
import tomllib

from headrace.deployment.kubernetes.manifests import HOME_FOLDER, USER
from support.containers.headrace_image import EXTRAS
from support.repository import ROOT, tracked_files

RECIPE = (ROOT / "deploy/k8s/Dockerfile").read_text()
PAGE = (ROOT / "docs/kubernetes.md").read_text()


def arguments() -> dict[str, str]:
    """Build arguments and their defaults."""
    return dict(re.findall(r"^ARG (\w+)=(\S+)$", RECIPE, re.MULTILINE))


def test_every_stage_is_built_on_the_base() -> None:
    stages = re.findall(r"^FROM (\S+)", RECIPE, re.MULTILINE)
    assert len(stages) == 2
    assert set(stages) == {"${BASE}"}


def test_its_extras_are_those_of_the_package_that_tests_install() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert arguments()["EXTRAS"] == EXTRAS
    assert set(EXTRAS.split(",")) <= known.keys()


def test_what_it_copies_is_in_the_context_and_nothing_else() -> None:
    copied = {name for line in re.findall(r"^COPY (?!--from)(.*)$", RECIPE, re.MULTILINE) for name in line.split()[:-1]}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert copied <= {path.parts[0] for path in tracked_files()}


def test_its_user_and_home_are_those_of_the_pods() -> None:
    assert re.findall(r"^USER (.*)$", RECIPE, re.MULTILINE) == [f"{USER}:{USER}"]
    assert f"echo 'headrace:x:{USER}:{USER}:headrace:{HOME_FOLDER}:/bin/sh' >> /etc/passwd" in RECIPE
    assert f"HEADRACE_HOME={HOME_FOLDER} " in RECIPE
    assert f"HOME={HOME_FOLDER} " in RECIPE


def test_the_page_has_its_arguments_and_the_command_that_builds_it() -> None:
    for name, default in arguments().items():
        assert f"| `{name}` | `{default}` |" in PAGE
    command = "docker build --file deploy/k8s/Dockerfile --tag you/headrace:1 ."
    assert f"$ {command}\n" in PAGE
    assert command in RECIPE
