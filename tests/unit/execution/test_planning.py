"""The plans of a job: what manifests may say of its steps."""

from __future__ import annotations

from headrace.execution.planning import JobPlans
from headrace.spec.reading.load import load_text

FILE = """\
name: sales
sources:
  sales:
    generator: {rows: 1, columns: {shop: {string: {}}, price: {sequence: {}}}}
    schema: {shop: string, price: int64}
steps:
  all:
    from: sales
    key_by: [shop]
    aggregate: {total: sum(price)}
  some:
    from: sales
    key_by: [shop]
    aggregate: {total: "sum(price) filter (where shop = '${SHOP}')"}
sinks:
  out: {from: all, print: {}}
  rest: {from: some, print: {}}
"""


def test_a_definition_has_no_value_of_a_variable() -> None:
    pipeline = load_text(FILE, "p.yaml", environ={"SHOP": "the-secret-shop"}).pipeline
    definitions = JobPlans(pipeline.to_dict()).facts(1).definitions
    assert list(definitions) == ["all"]
    assert definitions["all"].aggregates == {"total": "sum(price)"}
