"""A visitor submits the flights pipeline on the page, watches it, and acts on it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from integration.ui.conftest import Flights
from support.clusters.session import Cluster
from support.page_browser import Visitor, visiting

pytestmark = pytest.mark.broker


def submit(visitor: Visitor, flights: Flights) -> str:
    """Submits the pipeline on the page; returns the job's id, of the address that the page goes to."""
    visitor.open("/submit")
    visitor.page.set_input_files(
        "input[type=file]", {"name": "flights.yaml", "mimeType": "text/yaml", "buffer": flights.text.encode()}
    )
    expect(visitor.page.locator(".cm-content")).to_contain_text(flights.name)
    visitor.button("Check").click()
    expect(visitor.page.locator(".good")).to_be_visible()
    expect(visitor.page.locator(".node")).to_have_count(5)
    visitor.looks_right("plan")
    visitor.button("Submit").click()
    visitor.confirm(flights.name, "Submit the job")
    visitor.page.wait_for_url(re.compile(r"/jobs/[0-9a-f]+$"))
    return visitor.page.url.rpartition("/")[2]


def look_at_state(visitor: Visitor, path: str) -> None:
    """Reads rows of the windows, all of them and of one key, and mistakes a key."""
    visitor.open(path)
    expect(visitor.page.locator("tbody tr", has_text="hourly").first).to_be_visible()
    read = visitor.button("Read rows")
    expect(read).to_be_enabled()
    read.click()
    visitor.wait_text(re.compile(r"^\d+ rows of checkpoint \d+, .+ old"))
    visitor.looks_right("state")
    visitor.page.get_by_label("Key, such as").fill("no_column=1")
    read.click()
    visitor.wait_text(re.compile("no_column"))
    visitor.looks_right("state-mistake")


def test_flights_are_submitted_watched_saved_rescaled_and_canceled(
    cluster: Cluster, flights: Flights, page_url: str, chromium: Browser
) -> None:
    with visiting(chromium, page_url, 1280, "dark") as visitor, visiting(chromium, page_url, 390, "light") as phone:
        job = submit(visitor, flights)
        visitor.wait_state("RUNNING")
        expect(visitor.page.locator(".node")).to_have_count(5)
        visitor.wait_plots("rates", "lag", "load")
        visitor.looks_right("job")
        phone.open(f"/jobs/{job}")
        phone.wait_state("RUNNING")
        phone.wait_plots("rates", "lag", "load")
        phone.looks_right("job")

        look_at_state(visitor, f"/jobs/{job}/state")
        look_at_state(phone, f"/jobs/{job}/state")
        visitor.open(f"/jobs/{job}")
        visitor.wait_state("RUNNING")

        visitor.button("Savepoint").click()
        visitor.looks_right("dialog")
        visitor.confirm(flights.name, "Take a savepoint")
        visitor.wait_text(re.compile("Savepoint: done: .+"))
        assert any(each.kind == "savepoint" for each in cluster.client.checkpoints(job))

        visitor.button("Rescale").click()
        visitor.page.get_by_role("dialog").get_by_label("Parallelism").fill("2")
        visitor.confirm(flights.name, "Rescale the job")
        visitor.wait_text("Rescale: done")
        assert cluster.client.status(job).parallelism == 2

        phone.open("/")
        phone.wait_text(flights.name)
        phone.looks_right("jobs")
        phone.button("Light or dark").click()  # from the system's own, which is light, to dark
        expect(phone.page.locator("body")).to_have_class(re.compile("body--dark"))
        phone.behaved()

        visitor.button("Cancel").click()
        visitor.confirm(flights.name, "Cancel the job")
        visitor.wait_state("CANCELED")
        assert cluster.client.status(job).state == "CANCELED"
        visitor.behaved()


def test_mistakes_are_shown_with_their_lines_before_anything_is_sent(
    cluster: Cluster, flights: Flights, page_url: str, chromium: Browser
) -> None:
    before = len(cluster.client.jobs())
    with visiting(chromium, page_url, 1280, "dark") as visitor:
        visitor.open("/submit")
        wrong = flights.text.replace("filter: dep_delay is not null", "filter: dep_delai is not null")
        visitor.page.set_input_files(
            "input[type=file]", {"name": "flights.yaml", "mimeType": "text/yaml", "buffer": wrong.encode()}
        )
        expect(visitor.page.locator(".cm-content")).to_contain_text(flights.name)
        visitor.button("Submit").click()
        line = next(at for at, text in enumerate(wrong.splitlines(), 1) if "dep_delai" in text)
        visitor.wait_text(re.compile(f"line {line}: .*dep_delai"))
        visitor.looks_right("mistakes")
        expect(visitor.page.get_by_role("dialog")).to_have_count(0)
        visitor.behaved()
    assert len(cluster.client.jobs()) == before
