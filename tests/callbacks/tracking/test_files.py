"""Which files of a run are ready to be uploaded."""

import pytest

from sb3_ext.callbacks.tracking.files import _is_complete


def atom(name, size=0, long=False):
    length = (16 if long else 8) + size
    header = (1).to_bytes(4, "big") if long else length.to_bytes(4, "big")
    return header + name + (length.to_bytes(8, "big") if long else b"") + bytes(size)


INDEX, DATA = atom(b"moov", 20), atom(b"mdat", 30)


@pytest.mark.parametrize(
    ("content", "complete"),
    [
        (atom(b"ftyp", 4) + DATA + INDEX, True),
        (atom(b"ftyp", 4) + INDEX + DATA, True),
        (atom(b"mdat", 30, long=True) + INDEX, True),
        (atom(b"ftyp", 4) + DATA, False),
        (INDEX + DATA[:-1], False),
        (atom(b"mdat", 40) + INDEX[:-1], False),
        # The word in the data is not the index
        (atom(b"mdat") + atom(b"free", 0)[:4] + b"free" + b"moov", False),
        # Without a size: to the end of the file
        (INDEX + bytes(4) + b"mdat", False),
        (b"", False),
    ],
)
def test_a_video_is_complete_once_it_has_its_index(tmp_path, content, complete):
    video = tmp_path / "video.mp4"
    video.write_bytes(content)
    assert _is_complete(video) == complete


def test_a_video_that_was_deleted_is_not_complete(tmp_path):
    assert not _is_complete(tmp_path / "video.mp4")
