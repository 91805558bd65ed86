"""The image that deploy/standalone/README.md describes: its Dockerfile beside the wheel of this tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.core.labels import SESSION_ID

from support.containers.slim_image import build_wheel, built_by_recipe, package_index, slim_image
from support.pages.blocks import blocks

NAME = f"headrace/standalone:{SESSION_ID}"
PAGE = Path("deploy/standalone/README.md")


@contextmanager
def standalone_image(folder: Path) -> Iterator[str]:
    """Inside, the engine has the image under the name that is returned. folder: empty; 600 MB."""
    context, wheels = folder / "context", folder / "wheels"
    context.mkdir()
    wheels.mkdir()
    build_wheel(context)
    (recipe,) = (block.text for block in blocks([PAGE]) if block.kind == "dockerfile")
    (context / "Dockerfile").write_text(recipe)
    with package_index("headrace[zookeeper]", wheels) as index, built_by_recipe(NAME, context, slim_image(index)):
        yield NAME
