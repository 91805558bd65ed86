"""The screen of `headrace demo`: a live table on a terminal, lines elsewhere. All of it on stderr."""

from __future__ import annotations

import time
from types import TracebackType

import polars as pl
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.core.text.plural import count_text
from headrace.local.runs.progress import ProgressLine, watermark_text
from headrace_dev.broker import FetchProgress
from headrace_dev.demo.flow import Stage
from headrace_dev.demo.results import LiveView

PLAIN_SECONDS = 1.0


class PlainScreen:
    """Prints a line when a stage begins, and progress lines."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._started = time.monotonic()
        self._due = 0.0
        self._line = ProgressLine()

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def began(self, stage: Stage) -> None:
        """Prints one line."""
        self._say(stage.value)

    def fetching(self, progress: FetchProgress) -> None:
        """Prints a line now and then."""
        if self._is_due():
            self._say(f"  {fetch_text(progress)}")

    def moved(self, view: LiveView) -> None:
        """Prints a line now and then, and one at the end."""
        if self._is_due() or view.progress.rows_in == view.total:
            self._say(f"  sent {view.sent:,} | {self._line.text(view.progress)}")

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + PLAIN_SECONDS
        return True

    def _say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started:5.1f} s  {text}", markup=False)


class LiveScreen:
    """Stages as lines that stay; below them, while the pipeline runs, the bar and the tables."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._samples: list[tuple[float, int, int]] = [(0.0, 0, 0)]

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def began(self, stage: Stage) -> None:
        """Prints a line; the tables stay once the pipeline has run."""
        self._console.print(Text.assemble(("> ", "bold cyan"), stage.value))

    def fetching(self, progress: FetchProgress) -> None:
        """Updates one line in place."""
        self._live.update(Text(f"  {fetch_text(progress)}"), refresh=True)

    def moved(self, view: LiveView) -> None:
        """Updates the bar, the rates and the tables."""
        parts: list[RenderableType] = [self._bar(view), self._rates(view), Text()]
        if view.windows:
            parts.append(_side_by_side(_latest(view.latest), _busiest(view.busiest)))
        self._live.update(Group(*parts), refresh=True)

    def _bar(self, view: LiveView) -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(
            "flights into Kafka",
            ProgressBar(total=max(view.total, 1), completed=view.sent, width=32),
            f"{view.sent:,} of {view.total:,}",
        )
        return grid

    def _rates(self, view: LiveView) -> Text:
        progress = view.progress
        then, rows_in, rows_out = self._samples[0]
        self._samples = [*self._samples, (view.seconds, progress.rows_in, progress.rows_out)][-6:]
        seconds = max(view.seconds - then, 1e-9)
        return Text.assemble(
            (f"in {count_text((progress.rows_in - rows_in) / seconds)} rows/s", "green"),
            f" ({progress.rows_in:,})   ",
            (f"out {count_text((progress.rows_out - rows_out) / seconds)} rows/s", "green"),
            f" ({progress.rows_out:,})   ",
            (f"late {progress.late:,}", "yellow"),
            "   watermark ",
            (watermark_text(progress.watermark), "cyan"),
        )


def fetch_text(progress: FetchProgress) -> str:
    """Returns the progress of the first download of the broker's jars."""
    if progress.jars:
        return f"fetching Apache Kafka: {progress.jars} of {progress.jars_total} jars, {progress.bytes / 1e6:.0f} MB"
    return f"resolving Apache Kafka at Maven Central (once): {progress.descriptors} descriptors read"


def _side_by_side(left: Table, right: Table) -> Table:
    grid = Table.grid(padding=(0, 3))
    grid.add_row(left, right)
    return grid


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", header_style="dim", no_wrap=True)
    return table


def _latest(rows: pl.DataFrame) -> Table:
    table = _table("the hour that closed last, UTC", "hour", "from", "carrier", "flights", "mean min", "worst min")
    for row in rows.iter_rows(named=True):
        hour = f"{row['window_start']:%b %d %H:%M}"
        table.add_row(hour, row["origin"], row["carrier"], str(row["flights"]), *_minutes(row))
    return table


def _busiest(rows: pl.DataFrame) -> Table:
    table = _table("busiest carriers so far", "carrier", "flights", "mean min", "worst min")
    for row in rows.iter_rows(named=True):
        table.add_row(row["carrier"], f"{row['flights']:,}", *_minutes(row))
    return table


def _minutes(row: dict[str, float]) -> tuple[str, str]:
    return f"{row['mean_delay']:.1f}", f"{row['worst']:.0f}"
