"""Arrows point one way: who may import what, by the source and by a real import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FORBIDDEN = {
    "mlx_spec": {"PySide6", "desktop"},
    "models": {"PySide6", "desktop"},
    "desktop": {"mlx", "mlx_lm", "transformers", "tokenizers", "gguf"},
}


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_forbidden_import(package: str) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        assert not imports(file) & FORBIDDEN[package], file


@pytest.mark.parametrize("module", ["desktop.window", "desktop.app", "mlx_spec.events", "mlx_spec.host", "models"])
def test_importing_does_not_bring_mlx(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(m.split('.')[0] in ('mlx', 'mlx_lm', 'gguf') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("package", FORBIDDEN)
def test_files_stay_short(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        assert len(file.read_text().splitlines()) <= 500, file


def test_nothing_reads_the_workplace() -> None:
    for file in ROOT.rglob("*.py"):
        if ".venv" not in file.parts and file != Path(__file__):
            assert "/shared/" not in file.read_text(), file
