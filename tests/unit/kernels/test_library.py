"""How kernels are loaded, switched off, and refused."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.kernels import library as loading
from headrace.kernels.compiling import LIBRARY, SANITIZED, CompilerError, compile_library, compiler
from headrace.kernels.library import KERNELS_VARIABLE, KernelsMissingError, is_loaded, opened


@pytest.fixture(autouse=True)
def library_is_loaded_anew() -> None:
    loading.library.cache_clear()


def test_the_suite_runs_with_kernels_of_these_sources() -> None:
    assert opened(LIBRARY) is not None


def test_switched_off_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, "off")
    assert not is_loaded()
    assert not caplog.records


def test_an_unknown_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, "fast")
    with pytest.raises(UserError, match="HEADRACE_KERNELS is 'fast': it takes on or off"):
        loading.library()


def test_a_missing_library_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, "on")
    monkeypatch.setattr(loading, "LIBRARY", tmp_path / "headrace_kernels.so")
    with caplog.at_level(logging.WARNING):
        assert not is_loaded()
        assert not is_loaded()
    (record,) = caplog.records
    assert "install a C compiler and headrace again" in record.getMessage()


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernels.so").write_text("text")
    with pytest.raises(KernelsMissingError, match="cannot be loaded"):
        opened(tmp_path / "kernels.so")


def test_a_library_of_older_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "source_digest", lambda: "newer")
    with pytest.raises(KernelsMissingError, match="run make kernels"):
        opened(LIBRARY)


def test_without_a_compiler_the_error_has_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("headrace.kernels.compiling.compiler", lambda: None)
    with pytest.raises(CompilerError, match="apt install gcc"):
        compile_library(tmp_path / "kernels.so")


def test_what_a_compiler_prints_is_in_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="no-such-flag"):
        compile_library(tmp_path / "kernels.so", ["--no-such-flag"])
    assert not list(tmp_path.iterdir())


@pytest.mark.turns(3)
def test_the_sources_compile_under_sanitizers(tmp_path: Path) -> None:
    compile_library(tmp_path / "kernels.so", SANITIZED)
    assert (tmp_path / "kernels.so").exists()


def test_a_chosen_compiler_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "ccache gcc")
    assert compiler() == ["ccache", "gcc"]


def test_zig_compiles_for_every_machine_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert compiler() == [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
