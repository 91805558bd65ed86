"""A Python that travels: an archive as venv-pack makes them for hosts that are alike, but quickly made and small.

Its `bin/python` is a link to this interpreter's base, and its packages are links to those installed here; pyspark is
not among them: Spark brings its own to where tasks run.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
from pathlib import Path

LEFT_OUT = ("pyspark", "py4j", "__pycache__")


def packed_python(archive: Path, *, left_out: tuple[str, ...] = LEFT_OUT) -> Path:
    """Writes `archive` (.tar.gz) and gives it back: bin/python, and the packages that this interpreter has, without
    those whose names begin with `left_out`."""
    home = archive.with_suffix(".d")
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    for installed in Path(sysconfig.get_path("purelib")).iterdir():
        if not installed.name.startswith(left_out):
            (packages / installed.name).symlink_to(installed)
    (home / "bin").mkdir()
    base = Path(os.path.realpath(sys.executable))
    (home / "bin" / "python").symlink_to(base)
    (home / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(home, arcname=".")
    return archive
