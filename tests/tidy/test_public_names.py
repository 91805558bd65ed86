"""What users and third parties import stays where it is: an old name goes a version after its successor came.

A pipeline in Python imports `headrace`, a notebook `headrace.spark`, a connector the contract and its vocabulary, their
tests `headrace.testing`. Everything else may move.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

API = """
Pipeline Stream union load run explain RunResult submit jobs status wait savepoint stop cancel rescale
Aggregate Expr col lit sql fn case count sum_ avg min_ max_ var stddev first last
"""
NAMES = {
    "headrace": API,
    "headrace.api": API,
    "headrace.spark": "replay verify bootstrap bootstrap_columns register",
    "headrace.spark.state_source": "register_state",
    "headrace.testing": "Results run_pipeline",
    "headrace.testing.committer_conformance": "CommitterConformance opened_committer",
    "headrace.testing.publisher_conformance": "PublisherConformance",
    "headrace.testing.sink_conformance": "Feeder SinkConformance SinkUnderTest",
    "headrace.testing.source_conformance": "SourceConformance SourceUnderTest read_to_end",
    "headrace.connect.dead_letters": "DeadLetter DeadLetterSink DeadLetters Resent",
    "headrace.connect.format": """
        Decoded Decoder Encoder FormatConfig FormatContext Messages Prepared Preparation UnknownIds
    """,
    "headrace.connect.metadata": "METADATA",
    "headrace.connect.offsets_by_partition": "LATEST named_offsets offsets_of require_each stops_of",
    "headrace.connect.publisher": "Publisher Share",
    "headrace.connect.registry": "Connector Format connector format_named",
    "headrace.connect.restored": "gone restored",
    "headrace.connect.row_check": """
        Encode EncodeCheck Refusal Refuse Refused RowCheck ValueCheck columns_holding leaves refused_row
    """,
    "headrace.connect.share_marker": "ShareMarker",
    "headrace.connect.sink": """
        AuditedCommitter CheckpointTerms Committable CommittedWriter Committer OpenTransaction OutputAudit OutputSeen
        SinkBatch SinkConfig SinkContext Writer
    """,
    "headrace.connect.checkpoint_terms": "refused_terms",
    "headrace.connect.source": """
        Enumerator MessageBatch Offsets Polled Reader RestorableEnumerator RowBatch Run SourceConfig SourceContext
        Split SplitId
    """,
    "headrace.core.batch": "KG OP TS WM visible_columns",
    "headrace.core.config": "Config Duration secret",
    "headrace.core.errors": """
        HeadraceError UserError ExternalError InternalError UnreachableError InvalidPipelineError
        Unreachable InvalidPipeline
    """,
    "headrace.core.types": "DataType Field Schema",
    "headrace_connectors.archive": "CONNECTOR ArchiveSinkConfig",
    "headrace_connectors.files": "CONNECTOR FilesSourceConfig FilesSinkConfig",
    "headrace_connectors.generator": "CONNECTOR GeneratorSourceConfig",
    "headrace_connectors.kafka": "CONNECTOR KafkaSourceConfig KafkaSinkConfig",
    "headrace_connectors.memory": """
        CONNECTOR MemorySourceConfig MemorySinkConfig Feed Collected open_feed open_collected
    """,
    "headrace_connectors.print": "CONNECTOR PrintSinkConfig",
    "headrace_connectors.sql": "CONNECTOR SqlSinkConfig",
}
FIRST_LINES = {"headrace": b"Usage", "headrace_dev.demo": b"\t{", "headrace.local.demo": b"\t{"}
"""What the documents have people run by `python -m`, and what they had them run a version ago, with what it prints."""


@pytest.mark.parametrize("module", NAMES)
def test_names_that_others_import_are_there(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", FIRST_LINES)
def test_modules_that_others_run_are_there(module: str) -> None:
    with subprocess.Popen([sys.executable, "-m", module], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.kill()
    assert FIRST_LINES[module] in first
