"""Files are complete or do not exist."""

import os

import pytest

from sb3_ext.runs.files import atomic_write, link_or_copy


def test_an_error_while_writing_leaves_what_was_there(tmp_path):
    path = tmp_path / "folder" / "file.txt"
    with atomic_write(path) as unfinished:
        unfinished.write_text("complete")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "complete"
    assert os.listdir(path.parent) == ["file.txt"]


def test_a_planted_link_is_not_written_through(tmp_path):
    (tmp_path / "private").write_text("mine")
    for name in (f".unfinished-{os.getpid()}-report.md", "report.md"):
        (tmp_path / name).symlink_to("private")
    with atomic_write(tmp_path / "report.md") as unfinished:
        assert unfinished.name.startswith(".unfinished-") and not unfinished.read_bytes()
        unfinished.write_text("new")
    assert (tmp_path / "private").read_text() == "mine"
    assert (tmp_path / "report.md").read_text() == "new" and not (tmp_path / "report.md").is_symlink()


@pytest.mark.parametrize("can_link", [True, False])
def test_a_second_name_replaces_what_had_it(tmp_path, monkeypatch, can_link):
    def refuse(*_):
        raise OSError("no links here")

    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    link_or_copy(source, target)
    assert target.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]
