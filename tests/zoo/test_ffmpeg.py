"""An ``ffmpeg`` for machines that have none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sb3_ext.zoo.ffmpeg import provide_ffmpeg, without_captions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only folder on the path."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_where_there_is_none_one_comes_last_on_the_path(folder):
    provide_ffmpeg()
    first, added = os.environ["PATH"].split(os.pathsep)
    assert first == str(folder)
    assert Path(shutil.which("ffmpeg")).parent == Path(added)
    said = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True)
    assert said.stdout.startswith("ffmpeg version")


def test_one_that_is_installed_is_used(folder):
    (folder / "ffmpeg").write_text("#!/bin/sh\n")
    (folder / "ffmpeg").chmod(0o755)
    provide_ffmpeg()
    assert os.environ["PATH"] == str(folder)


def test_only_filters_that_draw_text_are_left_out(capsys):
    assert without_captions(["-i", "a.mp4", "-vf", "drawtext=text=Hi", "b.mp4"]) == ["-i", "a.mp4", "b.mp4"]
    assert "No captions in videos: install ffmpeg" in capsys.readouterr().err
    for others in (["-vf", "scale=2"], ["drawtext=x"]):
        assert without_captions(others) == others
    assert capsys.readouterr().err == ""
