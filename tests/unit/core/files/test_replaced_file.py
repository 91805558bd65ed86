"""A file that many threads replace is always whole, and nothing is left of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.core.files.replaced_file import replace_file


def test_threads_that_replace_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "file"
    texts = [f"{number}\n".encode() * 1_000 for number in range(8)]

    def replace(text: bytes) -> bool:
        for _ in range(50):
            replace_file(file, text)
        return file.read_bytes() in texts

    with ThreadPoolExecutor(len(texts)) as threads:
        assert all(threads.map(replace, texts))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
