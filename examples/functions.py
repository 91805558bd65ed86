"""Functions that the pipelines beside this file call: a DataFrame in, as many rows in the same order out.

A function sees whole columns, so numpy and polars do the work; no Python runs for a single row.
"""

from __future__ import annotations

import numpy as np
import polars as pl

EARTH_RADIUS_KM = 6371.0


def add_distance(trips: pl.DataFrame) -> pl.DataFrame:
    """Adds `km`, the great-circle distance from start to end; NULL where a coordinate is missing."""
    degrees = trips.select("from_lat", "from_lon", "to_lat", "to_lon").to_numpy()
    from_lat, from_lon, to_lat, to_lon = np.radians(degrees.T)
    half_chord = (
        np.sin((to_lat - from_lat) / 2) ** 2 + np.cos(from_lat) * np.cos(to_lat) * np.sin((to_lon - from_lon) / 2) ** 2
    )
    km = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(half_chord))
    return trips.with_columns(km=pl.Series(km).fill_nan(None))
