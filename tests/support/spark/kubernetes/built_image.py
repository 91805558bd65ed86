"""The image of deploy/spark as users build it: by its Dockerfile, in the way of docs/spark.md.

Its base is this machine's files, and so is what its `apt-get` installs (`slim_image`); pip installs the wheel of this
working tree, and those of this environment.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.core.labels import SESSION_ID

import headrace
from support.containers.slim_image import build_wheel, built_by_recipe, package_index, slim_image
from support.spark.kubernetes.image import RECIPE

NAME = f"headrace/spark-built:{SESSION_ID}"
_REQUIREMENT = "headrace[spark,s3]"
_PACKAGES = ("default-jre-headless", "procps", "tini")


@contextmanager
def built_spark_image(folder: Path) -> Iterator[str]:
    """Inside, the engine has the image under the name that is returned. folder: empty; 1.5 GB."""
    context, wheels = folder / "context", folder / "wheels"
    shutil.copytree(RECIPE, context)
    build_wheel(wheels)
    named = ("--build-arg", f"HEADRACE={_REQUIREMENT}=={headrace.__version__}")
    with (
        package_index(_REQUIREMENT, wheels) as index,
        built_by_recipe(NAME, context, slim_image(index, packages=_PACKAGES), *named),
    ):
        yield NAME
