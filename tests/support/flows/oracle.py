"""What the flows of tests/flows should give, by DuckDB: whole inputs as tables, one query a sink.

A source's table has its columns, `ts` (event time), `wm` (watermark of the row's partition just after it; both epoch
ms), `_partition` and `_at` (place in the partition). Of `kafka_idle`, `wm` is never below the floors of its parts.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl

from headrace.core.config import parse_duration_ms
from headrace.core.types import Schema
from headrace.spec.reading.read import pipeline_from_dict
from support.flows.inputs import FILES, TOPICS, generated, read_rows
from support.flows.site import Flow, Row

MACROS = """
set timezone = 'UTC';
create macro windows(ts, size, every) as
    list_transform(range(ts // every * every, ts - size, -every), lambda begin: {'from': begin, 'to': begin + size});
create macro so_far(ts, size, every) as
    list_transform(range(ts // every * every + every, ts // size * size + size + 1, every),
        lambda end_: {'from': ts // size * size, 'to': end_});
create macro moment(ms) as strftime(make_timestamp(ms * 1000), '%Y-%m-%dT%H:%M:%S.%gZ');
create macro tumbling(ts, size) as {'from': ts // size * size, 'to': ts // size * size + size};
"""
BOUNDS = 'moment(w."from") as window_start, moment(w."to") as window_end'
MINUTES = "with rows as (select *, tumbling(ts, 60000) as w from {rows})"
IN_TIME = 'w."to" - 1 > wm'
BERLIN = "timezone('Europe/Berlin', make_timestamptz(ts * 1000))"
BERLIN_MS = "epoch_ms(timezone('Europe/Berlin', {0}))"

QUERIES: dict[str, dict[str, str]] = {
    "allowed_lateness": {
        "corrected": f"""{MINUTES.format(rows="orders")}
            select shop, {BOUNDS}, count(*) as orders, sum(amount) as total, sum(amount) / count(*) as mean
            from rows where w."to" - 1 + 120000 > wm group by shop, w""",
        "late": f"""{MINUTES.format(rows="orders")}
            select id, shop, amount, "at" from rows where w."to" - 1 + 120000 <= wm""",
    },
    "at_least_once": {
        "kept": 'select id, shop, amount, "at" from orders where amount is not null',
        "extremes": """select shop, max(amount) as most, min(id) as least, count(distinct amount) as kinds
            from orders where amount is not null group by shop""",
    },
    "bad_rows": {
        "sales": """select id, item, try_cast(price as bigint) * 100 as cents
            from (select id, price, unnest(items) as item from baskets)
            where price is null or try_cast(price as bigint) is not null""",
    },
    "edges": {
        "copies": f"""with rows as (select *, tumbling(ts, 120000) as w from orders where id % 7 <> 0 and id % 5 = 0)
            select shop, {BOUNDS}, 2 * count(*) as copies, 2 * sum((amount + 1) * 2 - 1) as total
            from rows where {IN_TIME} group by shop, w""",
        "means": f"""with rows as (select *, tumbling(ts, 60000) as w from orders where id % 7 <> 0)
            select shop, {BOUNDS}, count(*) as orders, sum((amount + 1) * 2 - 1) as total,
                sum((amount + 1) * 2 - 1) / count(*) as mean
            from rows where {IN_TIME} group by shop, w""",
    },
    "kafka_idle": {
        "power": f"""{MINUTES.format(rows="readings")}
            select meter, {BOUNDS}, count(*) as readings, sum(watts) as watts
            from rows where {IN_TIME} group by meter, w""",
        "late": f"""{MINUTES.format(rows="readings")}
            select id, meter, watts, "at" from rows where not ({IN_TIME})""",
    },
    "kafka_upsert": {
        "small_minutes": f"""{MINUTES.format(rows="orders")}
            select shop, {BOUNDS}, count(*) as orders, sum(amount) as total
            from rows where w."to" - 1 + 180000 > wm group by shop, w having sum(amount) < 500""",
        "late": f"""{MINUTES.format(rows="orders")}
            select id, shop, amount, "at" from rows where w."to" - 1 + 180000 <= wm""",
    },
    "late_rows": {
        "totals": f"""{MINUTES.format(rows="orders")}
            select coalesce(shop, 'none') as shop, {BOUNDS},
                count(*) as orders, sum(amount * 100) as cents, min(id) as least
            from rows where amount > 0 and {IN_TIME} group by 1, w""",
        "late": f"""{MINUTES.format(rows="orders")}
            select id, coalesce(shop, 'none') as shop, amount * 100 as cents
            from rows where amount > 0 and not ({IN_TIME})""",
    },
    "local_days": {
        "by_day": f"""with rows as (select *, date_trunc('day', {BERLIN}) as day from orders),
            bounded as (select *, {BERLIN_MS.format("day")} as begin,
                {BERLIN_MS.format("day + interval 1 day")} as end_ from rows)
            select shop, moment(begin) as window_start, moment(end_) as window_end,
                count(*) as orders, sum(amount) as total
            from bounded where end_ - 1 > wm group by shop, begin, end_""",
        "by_half_day": f"""with halves as (select *,
                time_bucket(interval 12 hours, {BERLIN}, timestamp '2000-01-01') as half from orders),
            rows as (select *, half - unnest([0, 12]) * interval 1 hour as first from halves),
            bounded as (select *, {BERLIN_MS.format("first")} as begin,
                {BERLIN_MS.format("first + interval 24 hours")} as end_ from rows)
            select shop, moment(begin) as window_start, moment(end_) as window_end, count(*) as orders, min(id) as least
            from bounded where end_ - 1 > wm group by shop, begin, end_""",
        "day_so_far": f"""with rows as (select *, unnest(so_far(ts, 86400000, 21600000)) as w from orders)
            select shop, {BOUNDS}, count(*) as orders, max(id) as newest
            from rows where {IN_TIME} group by shop, w""",
    },
    "max_drift": {
        "power": f"""with rows as (select *, tumbling(ts, 900000) as w from readings)
            select meter, {BOUNDS}, count(*) as readings, avg(watts) as mean, max(id) as newest
            from rows where {IN_TIME} group by meter, w""",
        "late": f"""with rows as (select *, tumbling(ts, 900000) as w from readings)
            select id, meter, watts, "at" from rows where not ({IN_TIME})""",
    },
    "numbers": {
        "numbers": f"""with rows as (select *, tumbling(ts, 300000) as w, (ts, _partition, _at) as place from readings)
            select meter, {BOUNDS}, fsum(x + small) as total, favg(x) as mean, var_samp(x) as variance,
                stddev_samp(x) as deviation, stddev_pop(small) as deviation_pop, count(distinct kind) as kinds,
                sum(distinct kind) as kind_sum, count(*) filter (where x > 0) as high, min(x) as least,
                arg_min(note, place) filter (where note is not null) as first_note,
                arg_max(note, place) filter (where note is not null) as last_note,
                sum(kind::decimal(12, 2)) as price
            from rows where {IN_TIME} group by meter, w""",
    },
    "running": {
        "totals": """select shop, count(*) as orders, fsum(amount) as total, favg(amount) as mean,
            count(distinct id % 17) as kinds from orders group by shop""",
        "total": "select count(*) as orders, fsum(amount) as total, count(distinct shop) as shops from orders",
    },
    "sliding": {
        "recent_orders": f"""with rows as (select *, unnest(windows(ts, 120000, 30000)) as w from orders)
            select shop, {BOUNDS}, count(*) as orders, sum(amount) as total, max(id) as newest
            from rows where {IN_TIME} group by shop, w""",
        "late": f"""with rows as (select *, windows(ts, 120000, 30000)[1] as w from orders)
            select id, shop, amount, "at" from rows where not ({IN_TIME})""",
    },
    "two_stages": {
        "shops": f"""with rows as (select *, tumbling(ts, 30000) as w from orders),
            clerks as (select shop, clerk, w."to" - 1 as ts, count(*) as orders, sum(amount) as total
                from rows where {IN_TIME} group by shop, clerk, w),
            again as (select * exclude (ts), tumbling(ts, 300000) as w from clerks)
            select shop, {BOUNDS}, sum(orders) as orders, max(total) as best, count(distinct clerk) as clerks
            from again group by shop, w""",
        "everything": f"""with rows as (select *, tumbling(ts, 30000) as w from orders),
            again as (select shop, ts // 300000 as five_minutes, tumbling(ts, 600000) as w from rows where {IN_TIME})
            select {BOUNDS}, count(*) as orders, count(distinct (shop, five_minutes)) as shops
            from again group by w""",
    },
    "union": {
        "totals": f"""{MINUTES.format(rows="(from web where amount >= 100 union all by name from counter)")}
            select shop, {BOUNDS}, count(*) as orders, sum(amount) as total, min(id) as least
            from rows where {IN_TIME} group by shop, w""",
        "late": f"""{MINUTES.format(rows="(from web where amount >= 100 union all by name from counter)")}
            select id, shop, amount, "at" from rows where not ({IN_TIME})""",
    },
}


def expected(flow: Flow) -> list[str]:
    """Lines of the golden, of the sinks that a query is there for; floats rounded as by `rounded`."""
    with duckdb.connect() as database:
        database.execute(MACROS)
        for name, frame in _tables(flow).items():
            database.register(name, frame.to_arrow())
        lines = [
            _line(sink, {name: _plain(value) for name, value in row.items()})
            for sink, query in QUERIES[flow.name].items()
            for row in _rows(database, query)
        ]
    return sorted(lines)


def rounded(flow: Flow) -> list[str]:
    """Those lines of the golden that `expected` knows, floats to twelve digits: DuckDB's sums are not exact."""
    parsed = (json.loads(line) for line in flow.golden.read_text().splitlines())
    lines = [
        _line(sink, {name: _plain(value) for name, value in row.items()})
        for sink, row in parsed
        if sink in QUERIES[flow.name]
    ]
    return sorted(lines)


def _rows(database: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    found = database.execute(query)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _line(sink: str, row: Row) -> str:
    return json.dumps([sink, row], sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.9e}")
        case Decimal():
            return str(value)
    return value


def _tables(flow: Flow) -> dict[str, pl.DataFrame]:
    pipeline = pipeline_from_dict(flow.document)
    tables = {}
    for name, source in flow.document["sources"].items():
        rows = _source(source, pipeline.sources[name].columns)
        rows = rows.with_columns(_at=pl.int_range(pl.len()).over("_partition"))
        if "at" in rows.columns:
            lag_ms = parse_duration_ms(source["time"].get("out_of_orderness", "0s"))
            ts = pl.col("at").dt.timestamp("ms")
            newest = ts.cum_max().over("_partition") - lag_ms - 1
            rows = rows.with_columns(
                ts=ts,
                wm=pl.max_horizontal(newest, "_floor") if "_floor" in rows else newest,
                at=pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
            )
        tables[name] = rows
    return tables


def _source(source: dict[str, Any], schema: Schema) -> pl.DataFrame:
    if "generator" in source:
        made = source["generator"]
        return generated(made["rows"], made.get("partitions", 1), made["seed"], made["columns"], schema)
    if "files" in source:
        name = source["files"]["path"].rpartition("/")[2].partition("-")[0]
        return read_rows(FILES[name]())
    parts = TOPICS[source["kafka"]["topic"].rpartition("-")[2]]()
    frames = []
    for part in parts:
        rows = read_rows(part.messages)
        floors = pl.Series([part.floors.get(at) for at in rows["_partition"]], dtype=pl.Int64)
        frames.append(rows.with_columns(_floor=floors))
    # a floor holds for the partition from where it took effect on
    return pl.concat(frames).with_columns(pl.col("_floor").cum_max().forward_fill().over("_partition"))
