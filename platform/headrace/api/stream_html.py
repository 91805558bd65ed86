"""A stream as HTML for notebooks: its columns and, after a preview, the frame. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def stream_html(title: str, columns: Sequence[tuple[str, str]], frame_html: str | None) -> str:
    """The HTML of a stream. columns: (name, type); frame_html: of its preview, or None."""
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{escape(kind)}</td></tr>"
        for name, kind in columns
    )
    table = f"<table><thead><tr><th>column</th><th>type</th></tr></thead><tbody>{rows}</tbody></table>"
    return f"<div><b>{escape(title)}</b>{table}{frame_html or ''}</div>"


def problem_html(title: str, problem: str) -> str:
    """The HTML of a stream whose columns cannot be found."""
    return f"<div><b>{escape(title)}</b><pre>{escape(problem)}</pre></div>"
