"""The templates of deploy/yarn are read by what reads them."""

from __future__ import annotations

from headrace.deployment.yarn.cluster_spec import read_yarn_file
from support.hadoop.settings import read_settings
from support.repository import ROOT
from support.yarn.templates import TEMPLATES


def test_the_description_is_valid_and_names_a_queue_of_the_scheduler() -> None:
    spec = read_yarn_file(TEMPLATES / "cluster.yaml")
    queues = read_settings(TEMPLATES / "capacity-scheduler.xml")
    assert spec.queue in queues["yarn.scheduler.capacity.root.queues"].split(",")
    assert spec.coordinator.attempts <= int(
        read_settings(TEMPLATES / "yarn-site.xml")["yarn.resourcemanager.am.max-attempts"]
    )


def test_the_page_names_every_setting() -> None:
    page = (ROOT / "docs/yarn.md").read_text()
    for name in read_settings(TEMPLATES / "yarn-site.xml"):
        assert f"`{name}`" in page, name
