"""The page that asks for the token: plain HTML, built without NiceGUI."""

from __future__ import annotations

import html

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 sans-serif }
body { max-width: 24rem; margin: 4rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem }
input, button { font: inherit; padding: .5rem .7rem; margin: .4rem 0; width: 100%; box-sizing: border-box }
p.wrong { color: #d9482b }
"""


def login_form(wrong: str) -> str:
    """The form. wrong: why the last try has failed, or an empty text."""
    refused = f'<p class="wrong" role="alert">{html.escape(wrong)}</p>' if wrong else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in - Headrace</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f'<h1>Headrace</h1>{refused}<form method="post" action="/login"><label for="token">Token of this page</label>'
        '<input id="token" type="password" name="token" autocomplete="current-password" autofocus required>'
        "<button>Open</button></form></body></html>"
    )
