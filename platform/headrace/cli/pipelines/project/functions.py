"""Functions of the pipeline: columns in, columns out, as many rows as came and in the same order."""

import polars as pl

START_PRICE = 1.0
PRICE_PER_MINUTE = 0.25


def add_price(rides: pl.DataFrame) -> pl.DataFrame:
    """Adds what a ride costs."""
    return rides.with_columns(price=START_PRICE + PRICE_PER_MINUTE * pl.col("minutes"))
