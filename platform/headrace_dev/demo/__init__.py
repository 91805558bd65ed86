"""The demonstration: a year of real flights through a real broker and one pipeline, checked against a batch query."""

from headrace_dev.demo.flow import DemoOptions, DemoReport, Stage, run_demo
from headrace_dev.demo.results import LiveView

__all__ = ["DemoOptions", "DemoReport", "LiveView", "Stage", "run_demo"]
