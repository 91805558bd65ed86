"""The broker's settings as text."""

from __future__ import annotations

from pathlib import Path

from headrace_dev.broker.properties import server_properties


def settings(data: Path) -> dict[str, str]:
    text = server_properties(port=9092, controller_port=9093, data=data)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_only_loopback_is_bound() -> None:
    found = settings(Path("/data"))
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"


def test_the_controller_is_bound_to_loopback_wherever_clients_come_from() -> None:
    text = server_properties(port=9092, controller_port=9093, data=Path("/data"), host="10.0.0.1")
    assert "\nlisteners=PLAINTEXT://10.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n" in f"\n{text}"
    assert "\nadvertised.listeners=PLAINTEXT://10.0.0.1:9092\n" in text


def test_a_mistyped_topic_makes_no_topic() -> None:
    assert settings(Path("/data"))["auto.create.topics.enable"] == "false"


def test_a_data_folder_of_any_name_is_escaped() -> None:
    assert settings(Path("/données/a\\b"))["log.dirs"] == r"/donn\u00e9es/a\\b"


def test_settings_come_in_place_of_ours_and_listeners_beside_them() -> None:
    settings = {"min.insync.replicas": "2", "listeners": "SECURE://127.0.0.1:9094", "log.retention.ms": "1"}
    text = server_properties(port=9092, controller_port=9093, data=Path("/data"), settings=settings)
    lines = text.splitlines()
    assert {"min.insync.replicas=2", "log.retention.ms=1"} <= set(lines)
    assert "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,SECURE://127.0.0.1:9094" in lines
    assert len({line.partition("=")[0] for line in lines}) == len(lines)
