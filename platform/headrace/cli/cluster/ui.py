"""`headrace ui`: the page, in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator
from headrace.cli.cluster.tls_options import TlsCa, TlsCert, TlsKey
from headrace.cli.errors import reporting_errors

DEFAULT_PORT = 8490


@reporting_errors()
def ui(
    coordinator: Coordinator = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = DEFAULT_PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADRACE_UI_TOKEN_FILE",
            help="File with the token that browsers log in with. Default: cluster/ui-token of HEADRACE_HOME, created "
            "if missing; then the page listens on loopback only.",
        ),
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Serve the page of a cluster until Ctrl-C, and print its URL. It asks the coordinator's REST API."""
    from functools import partial

    from headrace.cli.cluster.page_extra import require_page_extra
    from headrace.client.discovery import cluster_folder, connect
    from headrace.client.token_files import ensure_token, required_token
    from headrace.core.errors import UserError
    from headrace.core.network.hosts import is_loopback
    from headrace.core.settings import Home
    from headrace.tls.files import tls_files

    if token_file is None and not is_loopback(host):
        raise UserError(
            f"a page on {host} is reached by other hosts, and takes a token of its own",
            remedy="--token-file FILE names a file with a random text; --tls-cert, --tls-key and --tls-ca encrypt it",
        )
    tls = tls_files(tls_cert, tls_key, tls_ca)
    own = cluster_folder(Home.from_environment()) / "ui-token"
    token = ensure_token(own) if token_file is None else required_token(token_file)
    require_page_extra()
    from headrace.ui.server import PageSettings, serve

    def ready(url: str) -> None:
        # a token that the user has chosen is not printed
        typer.echo(f"{url}/login?token={token}" if token_file is None else url)

    connect(coordinator).close()  # its errors end this command before anything listens
    serve(PageSettings(host, port, token, tls), partial(connect, coordinator), ready)
