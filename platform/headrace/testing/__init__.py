"""What authors of pipelines and of connectors test with: public, and as stable as the contracts themselves.

`run_pipeline` runs a pipeline on rows; `sink_conformance` and `source_conformance` hold the suites for connectors.
"""

from headrace.testing.pipeline import Results, run_pipeline

__all__ = ["Results", "run_pipeline"]
