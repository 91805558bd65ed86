"""Each block of commands on a page is run by a test, as it stands or in the test's own words, or has a reason why not.

Each command of headrace is also parsed by the command that it names: an option that does not exist is an error.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from support.pages.blocks import SHOWN, Block, blocks
from support.processes.commands import invoked
from support.repository import ROOT

LITERALLY = {
    "README.md": "tests/integration/examples/test_readme.py",
    "deploy/standalone/high-availability.md": "tests/support/deployment/standby_hosts.py",
    "docs/concepts/state.md": "tests/unit/plan/test_explain.py",
    "docs/state.md": "tests/unit/cli/output/test_state.py",
    "docs/tutorial-backfill.md": "tests/spark/test_tutorial.py",
    "docs/tutorial-first.md": "tests/integration/examples/test_pages.py",
    "examples/README.md": "tests/integration/examples/test_pages.py",
}
"""Pages whose commands are taken from them and run as they stand, and what reads them."""
IN_A_TEST = {
    ("deploy/standalone/README.md", "useradd"): ("tests/integration/deployment/test_systemd.py", '"With systemd"'),
    ("deploy/standalone/README.md", "docker build"): ("tests/support/containers/standalone_image.py", '"dockerfile"'),
    ("deploy/standalone/README.md", "docker compose"): ("tests/integration/containers/test_compose.py", "Standby"),
    ("docs/archive.md", "headrace archive"): ("tests/integration/archive/test_archive_command.py", '"archive"'),
    ("docs/cluster.md", "headrace cluster start"): ("tests/integration/cluster/test_cli_cluster.py", '"start"'),
    ("docs/cluster.md", "headrace submit orders.yaml"): ("tests/integration/leadership/test_modes.py", '"per-job"'),
    ("docs/developing.md", "headrace dev"): ("tests/integration/cli/test_dev.py", '"dev"'),
    ("docs/kubernetes.md", "docker build"): ("tests/integration/kubernetes/test_image.py", "headrace_image"),
    ("docs/kubernetes.md", "docker run"): ("tests/integration/kubernetes/test_image.py", "54321"),
    ("docs/kubernetes.md", "kubectl --namespace"): ("tests/integration/kubernetes/test_base.py", '"--kustomize"'),
    ("docs/kubernetes.md", "helm install"): ("tests/integration/kubernetes/test_chart.py", "rendered_chart("),
    ("docs/kubernetes.md", "headrace cluster"): ("tests/integration/kubernetes/test_cluster.py", '"kubernetes"'),
    ("docs/kubernetes.md", "headrace submit"): ("tests/integration/deployment/test_pods.py", "OF_ITS_OWN"),
    ("docs/kubernetes.md", "kubectl apply"): ("tests/support/operator/account.py", "operator.yaml"),
    ("docs/kubernetes.md", "kubectl -n data wait"): ("tests/integration/operator/test_jobs.py", "condition=Ready"),
    ("docs/operations.md", "export HEADRACE_COORD"): ("tests/integration/leadership/test_zookeeper.py", "zookeeper://"),
    ("docs/operations.md", "headrace coordinator"): ("tests/integration/resources/test_local_workers.py", '"local"'),
    ("docs/slow.md", "headrace explain"): ("tests/integration/cluster/test_bottleneck.py", '"--live"'),
    ("docs/spark.md", "pip install"): ("tests/spark/test_tutorial.py", "tutorial-backfill.md"),
    ("docs/spark.md", "headrace verify"): ("tests/spark/session/test_verify.py", '"verify"'),
    ("docs/spark.md", "headrace replay delays.yaml --from"): ("tests/spark/session/test_against.py", '"--against"'),
    ("docs/spark.md", "headrace replay delays.yaml --master spark"): ("tests/spark/test_clusters.py", '"replay"'),
    ("docs/spark.md", "APPLICATION="): ("tests/spark/test_clusters.py", '"spark-submit"'),
    ("docs/spark.md", "headrace replay delays.yaml --master yarn"): ("tests/spark/test_yarn.py", '"--archives"'),
    ("docs/spark.md", "docker build"): ("tests/support/spark/kubernetes/built_image.py", "--build-arg"),
    ("docs/spark.md", "cat $SPARK_CONF_DIR"): ("tests/integration/kubernetes/test_spark.py", '"replay"'),
    ("docs/spark.md", "headrace replay delays.yaml --follow"): ("tests/spark/session/test_follow.py", '"--follow"'),
    ("docs/ui.md", "headrace cluster start"): ("tests/integration/ui/test_starts.py", '"--ui"'),
    ("docs/yarn.md", "headrace cluster start"): ("tests/support/yarn/session.py", '"start"'),
    ("docs/yarn.md", "export HEADRACE_COORDINATOR"): ("tests/integration/deployment/test_yarn.py", "scenarios"),
    ("docs/yarn.md", "headrace submit"): ("tests/integration/yarn/test_own_clusters.py", '"application"'),
}
"""(page, how the block begins) -> the test that runs its commands with names of its own, and what it has of them."""
NOT_RUN = {
    ("README.md", "make demo"): "`.ci/run` is `make test`; integration/examples/test_demo runs what `make demo` runs",
    ("README.md", "pip install"): "installs from a package index; integration/wheel installs the wheel, and runs it",
    (
        "deploy/standalone/README.md",
        "export HEADRACE_COORD",
    ): "high-availability.md does it, with standbys",
    ("deploy/standalone/README.md", "install -m"): "certificates of yours; cluster/test_tls has a cluster with TLS",
    ("docs/spark.md", "export HADOOP_CONF_DIR"): "needs conda; tests pack a Python in the form of venv-pack",
    ("docs/yarn.md", "python -m venv"): "installs from a package index; tests pack a Python in the form of venv-pack",
}
"""(page, how the block begins) -> why no test runs its commands."""
OF_HEADRACE = re.compile(r"""(?:^|[|;&(]\s*|\b(?:until|do) )headrace ((?:[^|;&()<>#'"\n]|'[^']*'|"[^"]*")+)""")
"""A command in a line of the shell, and its arguments."""
BLOCKS = [block for block in blocks([*SHOWN, Path("deploy/standalone/high-availability.md")]) if block.is_commands]


def _commands() -> dict[str, list[str]]:
    """Command -> places."""
    found: dict[str, list[str]] = {}
    for block in BLOCKS:
        for line in block.commands():
            for command in OF_HEADRACE.findall(line.partition("  #")[0]):
                found.setdefault(command.strip(), []).append(block.place)
    return found


def _key(block: Block) -> tuple[str, str] | None:
    """Of several beginnings, the longest counts."""
    first = block.commands()[0]
    found = [key for key in [*IN_A_TEST, *NOT_RUN] if key[0] == str(block.page) and first.startswith(key[1])]
    return max(found, key=lambda key: len(key[1]), default=None)


def _read_of_the_readme() -> tuple[str, ...]:
    """How the blocks begin that its test takes from it."""
    found = re.findall(r'commands\("([^"]+)"\)', (ROOT / LITERALLY["README.md"]).read_text())
    assert len(found) > 3
    return tuple(found)


def test_commands_are_ones_that_headrace_takes() -> None:
    """Names of options are read before help is shown: one that does not exist is an error."""
    commands = _commands()
    assert len(commands) > 60
    wrong = {}
    for command, places in commands.items():
        result = invoked(*shlex.split(command), "--help")
        if result.exit_code != 0:
            wrong[command] = (places, result.output[-300:])
    assert [f"{places[0]}: {command}: {text}" for command, (places, text) in wrong.items()] == []


def test_every_block_has_a_test_or_a_reason() -> None:
    read = _read_of_the_readme()
    others = [
        block
        for block in BLOCKS
        if str(block.page) not in LITERALLY
        or (str(block.page) == "README.md" and not block.commands()[0].startswith(read))
    ]
    assert [block.place for block in others if _key(block) is None] == []
    assert (IN_A_TEST.keys() | NOT_RUN.keys()) - {_key(block) for block in others} == set()


def test_the_tests_that_are_named_have_them() -> None:
    assert [page for page, test in LITERALLY.items() if Path(page).name not in (ROOT / test).read_text()] == []
    assert [(test, words) for test, words in IN_A_TEST.values() if words not in (ROOT / test).read_text()] == []
