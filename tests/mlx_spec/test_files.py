"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlx_spec.files import replacing


def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "state.json"
    with replacing(path) as part:
        part.write_text("half")
        assert not path.exists()
        assert part.parent == path.parent  # so that it can be moved, and not copied
        part.write_text("whole")
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("trouble", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("odd")])
def test_what_fails_leaves_what_was_there(tmp_path: Path, trouble: BaseException) -> None:
    path = tmp_path / "state.json"
    path.write_text("before")

    def write() -> None:
        with replacing(path) as part:
            part.write_text("ha")
            raise trouble

    with pytest.raises(type(trouble)):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("before")
    with pytest.raises(FileNotFoundError), replacing(path):
        pass
    assert path.read_text() == "before"


def test_what_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), replacing(tmp_path / "file" / "state.json") as part:
        part.write_text("never")


def test_a_part_that_a_crash_left_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    (tmp_path / "state.json.part").write_text("much longer than what is to be written now")
    with replacing(path) as part:
        part.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
