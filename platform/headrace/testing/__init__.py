"""Test tools for authors of pipelines and connectors: public, and as stable as the contracts themselves.

`run_pipeline` runs a pipeline on rows; `sink_conformance` and `source_conformance` contain the suites for connectors.
"""

from headrace.testing.pipeline import Results, run_pipeline

__all__ = ["Results", "run_pipeline"]
