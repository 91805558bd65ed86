"""The base of the spec's models: fields have Python names (`size_ms`) and file keys (`tumbling`)."""

from __future__ import annotations

from pydantic import ConfigDict

from headrace.core.config import Config


class FileModel(Config):
    """A frozen model that Python code builds by field name and `read_model` reads by file key only."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
