"""The demonstration: a year of real flights through a real broker and one pipeline, checked against a batch query."""

from headrace.local.demo.flow import DemoOptions, DemoReport, Stage, run_demo
from headrace.local.demo.results import LiveView

__all__ = ["DemoOptions", "DemoReport", "LiveView", "Stage", "run_demo"]
