"""The process of a page, as `headrace cluster start --ui` and `headrace run --ui` start it."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from headrace.client.discovery import cluster_folder, connect
from headrace.client.token_files import ensure_token
from headrace.core.network.hosts import LOOPBACK
from headrace.core.settings import Home
from headrace.processes.end_request import end_with_parent
from headrace.tls.files import tls_files
from headrace.ui.server import PageSettings, serve


def main() -> None:
    """Serves the page of the home's cluster, or of the one in the environment, until a signal ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    for name in ("--tls-cert", "--tls-key", "--tls-ca"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # one line a request to the coordinator would be one a second
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if given.with_parent:
        end_with_parent()
    token = ensure_token(cluster_folder(Home(given.home)) / "ui-token")
    tls = tls_files(given.tls_cert, given.tls_key, given.tls_ca)
    settings = PageSettings(LOOPBACK, given.port, token, tls)
    # the address is logged without the token
    serve(settings, connect, lambda url: logging.getLogger(__name__).info("the page listens at %s", url))


if __name__ == "__main__":
    main()
