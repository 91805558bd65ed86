"""Mistakes of a newcomer, one edit of a valid file each: the line it is reported at, and the remedy."""

from __future__ import annotations

import pytest

from headrace.core.errors import InvalidPipelineError, Problem, UserError
from headrace.core.text.synonyms import TYPE_SYNONYMS
from headrace.core.types import parse_type, schema_of
from headrace.expr.compiler import compile_scalar
from headrace.plan.every_problem import every_problem
from headrace.plan.logical import plan_logical
from headrace.spec.reading.load import PartlyReadError, load_text

FILE = """\
name: orders
sources:
  orders:
    kafka: {brokers: "b:9092", topic: orders}
    format: json
    schema:
      country: string
      amount: int64
      ts: timestamp
    time: {column: ts}
steps:
  large:
    from: orders
    filter: amount > 10
  per_country:
    from: large
    key_by: [country]
    window: {tumbling: 1h}
    aggregate: {total: sum(amount)}
sinks:
  out:
    from: per_country
    print: {}
"""

MISTAKES = [
    # before, after, line, words of the message, words of the remedy
    ("amount: int64", "amount: double", 8, "unknown type 'double'", "did you mean 'float64'?"),
    ("amount: int64", "amount: bigint", 8, "unknown type 'bigint'", "did you mean 'int64'?"),
    ("country: string", "country: varchar", 7, "unknown type 'varchar'", "did you mean 'string'?"),
    ("{brokers:", "{bootstrap_servers:", 4, "unknown key 'bootstrap_servers'", "did you mean 'brokers'?"),
    ("{brokers:", "{bootstrap.servers:", 4, "unknown key 'bootstrap.servers'", "did you mean 'brokers'?"),
    ("from: large", "from: [large, orders]", 16, "takes one node", "union: [large, orders]"),
    ("from: per_country", "from: [large, orders]", 22, "takes one node", "union: [large, orders]"),
    ("per_country", "per-country", 15, "'per-country' is not a node's name", "did you mean 'per_country'?"),
    ("sum(amount)", "'percentile(amount, 0.9)'", 19, "no function 'percentile'", "use quantile_cont(x, 0.95)"),
    ("sum(amount)", "xyzzyxyzzy(amount)", 19, "no function 'xyzzyxyzzy'", "aggregates: "),
    ("amount > 10", "xyzzyxyzzy(amount)", 14, "no function 'xyzzyxyzzy'", "`headrace functions` lists all"),
    ("{tumbling: 1h}", "{session: 5m}", 18, "not in this version", "tumbling"),
    ("filter: amount > 10", "join: other", 14, "not in this version", "verbs: filter"),
    ("filter: amount > 10", "where: amount > 10", 14, "unknown key 'where'", "did you mean 'filter'?"),
    ("key_by: [country]", "group_by: [country]", 17, "unknown key 'group_by'", "did you mean 'key_by'?"),
    ("key_by: [country]", "key_by: [contry]", 17, "no column 'contry'", "did you mean 'country'?"),
    ("from: large", "from: lrge", 16, "there is no node 'lrge'", "did you mean 'large'?"),
    ("filter: amount > 10", 'filter: country = "DE"', 14, "there is no column 'DE'", "single quotes: 'DE'"),
    ("amount > 10", "amount > 10 as big", 14, "takes no alias", "before the colon"),
    ("amount > 10", "sum(amount) > 10", 14, "sum is an aggregate", "key_by"),
    ("filter: amount > 10", "filter: amount > 10\n    drop: [ts]", 15, "2 verbs", "its own step"),
    ("amount > 10", "amount > ${LIMIT}", 14, "variable 'LIMIT' is not set", "give a default"),
    ("    from: orders", "    from: per_country", 13, "a cycle", "rows flow one way"),
    ("    format: json", "\tformat: json", 5, "tab", ""),
    ("      amount: int64", "      country: int64", 8, "country", ""),
    ("amount > 10", "ts > 'soon'", 14, "timestamp and string do not mix", "write a typed literal"),
    ("amount > 10", "country > ts", 14, "string and timestamp do not mix", "cast(.. as timestamp)"),
    ("amount > 10", "amnt > 10", 14, "no column 'amnt'", "did you mean 'amount'?"),
    ("sum(amount)", "sum(amount", 19, "does not parse", ""),
    ("sum(amount)", "amount", 19, "neither a key nor inside an aggregate", "add it to key_by"),
    ("sum(amount)", "sum(country)", 19, "sum needs numbers, not string", ""),
    ("    filter: amount > 10\n", "", 12, "no verb", "add one of filter"),
    ("{tumbling: 1h}", "{tumbling: 1 parsec}", 18, "is not a duration", ""),
    ("format: json", "format: jason", 5, "unknown format 'jason'", "did you mean 'json'?"),
    ("    format: json\n", "", 3, "missing 'format'", "installed formats"),
    ("topic: orders", "topik: orders", 4, "unknown key 'topik'", "did you mean 'topic'?"),
    ("    kafka:", "    kafak:", 4, "kafak", "did you mean 'kafka'?"),
    ("name: orders", "nam: orders", 1, "unknown key 'nam'", "did you mean 'name'?"),
    ("name: orders", "name: my orders", 1, "not a pipeline's name", ""),
    ("{column: ts}", "{column: tss}", 10, "no column 'tss'", "did you mean 'ts'?"),
    ("sources:", "source:", 2, "unknown key 'source'", "did you mean 'sources'?"),
    ("sinks:", "outputs:", 20, "unknown key 'outputs'", "did you mean 'sinks'?"),
    ("from: large", "frm: large", 16, "unknown key 'frm'", "did you mean 'from'?"),
    ("from: large", "input: large", 16, "unknown key 'input'", "did you mean 'from'?"),
    ("from: per_country", "fro: per_country", 22, "unknown key 'fro'", "did you mean 'from'?"),
    ("format: json", "formt: json", 5, "unknown key 'formt'", "did you mean 'format'?"),
    ("    schema:", "    shema:", 6, "unknown key 'shema'", "did you mean 'schema'?"),
    ("    schema:", "    fields:", 6, "unknown key 'fields'", "did you mean 'schema'?"),
    ("time: {column: ts}", "tme: {column: ts}", 10, "unknown key 'tme'", "did you mean 'time'?"),
    ("    kafka: {", "    connector: kafka\n    topic: orders #{", 4, "not by 'connector'", "`kafka:` and below it"),
    ("    print: {}", "    type: print", 23, "not by 'type'", "write `print:`"),
    ("    print: {}", "    print: true", 23, "takes its fields as a mapping", "`print: {}`"),
    (", topic: orders}", "}\n    topic: orders", 5, "'topic' is a setting of kafka", "write it below `kafka:`"),
    ("  out:\n    from: ", "  - name: out\n    from: ", 20, "not a list", "write `out:` and below it"),
    ("{tumbling: 1h}", "{type: tumbling, size: 5m}", 18, "a window's kind is a key", "write {tumbling: 5m}"),
    ("{tumbling: 1h}", "{type: [tumbling]}", 18, "unknown key 'type'", "valid keys: tumbling"),
    ("format: json", "format: {type: json}", 5, "a format is named by a key", "write `format: json`"),
    ("time: {column: ts}", "time: ts", 10, "takes a mapping, not 'ts'", "write {column: ts}"),
    ("filter: amount > 10", "filter: [amount > 10, amount < 20]", 14, "not a list", "`and` joins conditions"),
    ("filter: amount > 10", "select: country, amount, ts", 14, "takes a list of columns", "[country, amount, ts]"),
    ("amount > 10", "amount => 10", 14, "'=>' is not expected here", "did you mean '>='?"),
    ("amount > 10", "amount > 10 && amount < 20", 14, "`&&` is not part of expressions", "use and"),
]


def _problems(text: str) -> list[Problem]:
    try:
        loaded = load_text(text, "p.yaml", environ={})
        plan_logical(loaded.pipeline, loaded)
    except PartlyReadError as error:
        return every_problem(error).problems
    except InvalidPipelineError as error:
        return error.problems
    return []


def test_the_file_has_no_mistake() -> None:
    assert _problems(FILE) == []


@pytest.mark.parametrize(("before", "after", "line", "message", "remedy"), MISTAKES)
def test_one_mistake_is_one_problem_with_its_remedy(
    before: str, after: str, line: int, message: str, remedy: str
) -> None:
    text = FILE.replace(before, after)
    assert text != FILE

    (problem,) = _problems(text)

    assert problem.location is not None
    assert problem.location.line == line
    assert message in problem.message
    assert remedy in (problem.remedy or "")


@pytest.mark.parametrize(
    ("before", "after", "misspelt", "other", "place"),
    [
        ("sources:", "source:", "source", "'topik'", "source.orders.kafka.topik"),
        ("steps:", "step:", "step", "no node 'lrge'", "step.per_country.from"),
        ("sinks:", "outputs:", "outputs", "no node 'lrge'", "steps.per_country.from"),
        ("    schema:", "    shema:", "sources.orders.shema", "unknown type 'int46'", "sources.orders.shema.amount"),
        ("from: per_country", "frm: per_contry", "sinks.out.frm", "no node 'per_contry'", "sinks.out.frm"),
    ],
)
def test_what_stands_under_a_misspelt_key_is_read(
    before: str, after: str, misspelt: str, other: str, place: str
) -> None:
    second = {
        "'topik'": ("topic: orders", "topik: orders"),
        "no node 'lrge'": ("from: large", "from: lrge"),
        "unknown type 'int46'": ("amount: int64", "amount: int46"),
    }.get(other, ("", ""))

    problems = _problems(FILE.replace(before, after).replace(*second))

    first = next(problem.path for problem in problems if "unknown key" in problem.message)
    assert ".".join(first) == misspelt
    assert [".".join(problem.path) for problem in problems if other in problem.message] == [place]
    assert len(problems) == 2
    assert all(problem.location is not None for problem in problems)


@pytest.mark.parametrize("word", TYPE_SYNONYMS)
def test_a_synonym_of_a_type_is_no_type_and_means_one(word: str) -> None:
    meant = TYPE_SYNONYMS[word]

    with pytest.raises(UserError, match=f"unknown type '{word}'") as raised:
        parse_type(word)

    assert f"did you mean '{meant}'?" in (raised.value.remedy or "")
    parse_type("decimal(18,3)" if meant == "decimal" else meant)


@pytest.mark.parametrize("word", ["bigint", "int", "integer", "double", "float", "real", "text", "varchar", "boolean"])
def test_a_schema_means_by_a_word_what_a_cast_means(word: str) -> None:
    compiled = compile_scalar(f"cast(x as {word})", schema_of({"x": "string"}))

    assert str(compiled.type) == TYPE_SYNONYMS[word]


def test_nodes_in_a_list_are_read() -> None:
    listed = FILE.replace("  large:\n    from: orders\n", "  - name: large\n    from: ordrs\n")
    listed = listed.replace("  per_country:\n    from: large", "  - name: per_country\n    frm: large")

    problems = {".".join(problem.path): problem for problem in _problems(listed)}

    assert sorted(problems) == ["steps", "steps.0.from", "steps.1.frm"]
    places = [problems[path].location for path in sorted(problems)]
    assert [place.line for place in places if place is not None] == [11, 13, 16]
    assert "no node 'ordrs'" in problems["steps.0.from"].message


def test_a_setting_beside_its_connector_is_read() -> None:
    beside = FILE.replace(", topic: orders}", "}\n    topic: orders\n    start: yesterday")

    topic, start, value = _problems(beside)

    assert topic.path == ("sources", "orders", "topic")
    assert start.message == "'start' is a setting of kafka"
    assert value.path == start.path == ("sources", "orders", "start")
    assert "'yesterday' is no position" in value.message
