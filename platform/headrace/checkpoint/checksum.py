"""Checksums of checkpoint files, as manifests hold them: `xxh64:<16 hex digits>` of the whole file."""

from __future__ import annotations

from headrace.state.parquet import checksum

__all__ = ["checksum"]
