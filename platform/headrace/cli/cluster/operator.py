"""`headrace operator`: keeps clusters and jobs on Kubernetes as their resources describe them."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.errors import reporting_errors


@reporting_errors()
def operator(
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", help="A namespace to look after, repeated. Default: all.", show_default=False
        ),
    ] = None,
    lease: Annotated[
        str,
        typer.Option(
            metavar="NAME|URL",
            help="The Lease that elects one of several operators, in the pod's namespace; or "
            "kubernetes://NAMESPACE/NAME.",
        ),
    ] = "headrace-operator",
    probe_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="A port that answers /healthz, for probes. Default: none.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the Kubernetes operator in the foreground, until SIGTERM."""
    import logging

    from headrace.core.errors import UserError

    try:
        from headrace.kubernetes_operator.shell.leading import OperatorOptions, run_operator
    except ModuleNotFoundError as error:
        if error.name != "kopf":
            raise
        raise UserError("the operator is not installed", remedy="pip install 'headrace[operator]'") from error

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "kopf"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    url = lease if "://" in lease else f"kubernetes:///{lease}"
    run_operator(OperatorOptions(tuple(namespace or ()), url, probe_port))
