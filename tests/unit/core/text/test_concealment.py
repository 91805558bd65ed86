"""Values of variables are hidden in texts, however a message quotes them; what is public is shown."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidPipelineError, Problem, UserError
from headrace.core.text.concealment import Concealment, hidden_texts

PASSWORD = "hunter2 VERY secret"
NO_MARK = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
VALUES = st.text(st.sampled_from(NO_MARK + " -_./:@'\"\\%äß\n"), min_size=4, max_size=40).filter(
    lambda text: len(text.strip()) >= 4
)
QUOTES = (str, repr, json.dumps, quote, quote_plus, str.lower, str.upper, str.strip)


def concealment(public: str = "", **values: str) -> Concealment:
    return Concealment(hidden_texts(values, [public]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{PASSWORD!r} is not a name, such as hunter2-very-secret", "'${P}' is not a name, such as ${P}"),
        ("no host hunter2: try again", "no host ${P}: try again"),
        ("near VERY", "near ${P}"),
        ("user:hunter2%20VERY%20secret@host", "user:${P}@host"),
        ("nothing of it", "nothing of it"),
    ],
)
def test_whole_values_and_words_of_them_are_shown_as_the_variable(text: str, shown: str) -> None:
    assert concealment(P=PASSWORD).text(text) == shown


def test_a_shortened_value_is_hidden() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9abcdefghijklmnop"
    assert concealment(T=token).text(f"not {token[:20]}.. here") == "not ${T}.. here"


def test_words_of_the_file_and_schemes_of_urls_are_public() -> None:
    hides = concealment("sources flights orders", URL="postgresql://flights:pw-4711-x@db.prod/orders", O="orders")
    shown = hides.text("postgresql: no table orders for flights at db.prod:5432 with pw-4711-x")
    assert shown.startswith("postgresql: no table orders for flights at ")
    assert "4711" not in shown
    assert "prod" not in shown


def test_short_values_are_hidden_between_quotes_only() -> None:
    assert concealment(A="ab").text("'ab' is about nothing") == "'${A}' is about nothing"


@pytest.mark.parametrize("before", ["a%20", "pw%3D", "%3d", r"a\n", r"\t", r"\x0b", r"\u000b", "a+"])
def test_a_short_value_after_an_escape_is_a_whole_word(before: str) -> None:
    hides = concealment(P="0ab1")
    assert hides.text(f"{before}0ab1") == f"{before}${{P}}"
    assert hides.text(f"{before}0ab1c and 20ab1") == f"{before}0ab1c and 20ab1"


def test_errors_lose_values_and_keep_their_places() -> None:
    hides = concealment(P="hunter2")
    several = InvalidPipelineError([Problem("'hunter2' is bad", ("steps", "s", "hunter2"), None, "not hunter2")])
    hides.error(several)
    assert "hunter2" not in f"{several}{several.problems}{several.args}"
    assert several.problems[0].path == ("steps", "s", "${P}")
    one = UserError("hunter2", remedy="hunter2")
    hides.error(one)
    assert str(one) == "${P}\n  ${P}"


def test_data_loses_values_and_keeps_its_form() -> None:
    assert concealment(P="hunter2").data({"hunter2x": ["hunter2", 1, None]}) == {"hunter2x": ["${P}", 1, None]}


@given(VALUES, st.sampled_from(QUOTES), st.sampled_from(["", "error: ", "(at "]), st.sampled_from(["", "!", " again"]))
def test_no_way_of_quoting_shows_a_value(value: str, quoted: object, before: str, after: str) -> None:
    assert callable(quoted)
    text = quoted(value)
    hides = concealment(P=value)
    shown = hides.text(f"{before}{text}{after}")
    assert value.strip().lower() not in shown.lower()
    assert hides.text(shown) == shown, "a text that was hidden once stays as it is"


@given(VALUES, st.text(st.sampled_from("xyz :,'"), max_size=60))
def test_a_text_without_the_value_stays(value: str, text: str) -> None:
    hides = concealment(P="Q" + value.replace("x", "a").replace("y", "b").replace("z", "c"))
    assert hides.text(text) == text
