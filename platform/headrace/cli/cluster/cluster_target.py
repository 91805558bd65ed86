"""The options of `headrace cluster` by target: an option without meaning for the target is refused, never ignored."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from headrace.cli.arguments import given_option


class ClusterTarget(StrEnum):
    """Where the cluster's processes are: on this host, pods, or containers of YARN."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"
    YARN = "yarn"


ClusterTargetOption = Annotated[ClusterTarget, typer.Option("--target", help="Where the cluster's processes are.")]
ClusterName = Annotated[
    str | None,
    typer.Option("--name", help="With --target kubernetes or yarn: the cluster's name.", show_default=False),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="With --target kubernetes: its namespace. Default: that of the kubeconfig's context.",
        show_default=False,
    ),
]
ClusterConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="With --target kubernetes or yarn: what describes it.", show_default=False
    ),
]
WithSecret = Annotated[
    bool,
    typer.Option(
        "--with-secret",
        help="With --target kubernetes or yarn: also delete its token and the key of its ledger, for good.",
    ),
]
_OF_SYSTEMS = ("name", "namespace", "config", "with_secret")
_OF_KUBERNETES = ("namespace",)
_OF_THIS_HOST = ("workers", "slots", "ha", "ledger", "key_file", "host", "ui", "tls_cert", "tls_key", "tls_ca")


def require_target_options(context: typer.Context, target: ClusterTarget) -> None:
    """Raises UserError for the first command line option that the target does not take."""
    from headrace.core.errors import UserError

    refused, remedy = _refused(target)
    option = given_option(context, refused)
    if option is not None:
        raise UserError(f"{option} means nothing with --target {target}", remedy=remedy)


def _refused(target: ClusterTarget) -> tuple[tuple[str, ...], str]:
    match target:
        case ClusterTarget.LOCAL:
            return _OF_SYSTEMS, "give --target kubernetes too"
        case ClusterTarget.KUBERNETES:
            return _OF_THIS_HOST, "its --config FILE describes the cluster"
        case ClusterTarget.YARN:
            return (*_OF_THIS_HOST, *_OF_KUBERNETES), "its --config FILE describes the cluster"
        case _:
            assert_never(target)
