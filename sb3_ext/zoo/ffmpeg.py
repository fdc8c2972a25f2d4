"""An ``ffmpeg`` program for RL Zoo's commands on machines without one: the one that comes with moviepy.

It can't write captions, which ``record_training`` asks for. Run as a script, this module is that program without them.
"""

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["provide_ffmpeg", "without_captions"]


def provide_ffmpeg() -> None:
    """If no ``ffmpeg`` is installed, add one to the end of this process's PATH."""
    if shutil.which("ffmpeg") is not None:
        return
    folder = Path(tempfile.mkdtemp(prefix="sb3-ext-ffmpeg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "ffmpeg"
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I {shlex.quote(__file__)} "$@"\n'
    program.write_bytes(os.fsencode(script))
    program.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(folder)])


def without_captions(arguments: Sequence[str]) -> list[str]:
    """Remove video filters that draw text."""
    kept: list[str] = []
    for argument in arguments:
        if argument.startswith("drawtext=") and kept[-1:] == ["-vf"]:
            kept.pop()
            print("No captions in videos: install ffmpeg for them (apt-get install ffmpeg)", file=sys.stderr)
        else:
            kept.append(argument)
    return kept


def main() -> None:
    import imageio_ffmpeg

    program = imageio_ffmpeg.get_ffmpeg_exe()
    os.execv(program, [program, *without_captions(sys.argv[1:])])


if __name__ == "__main__":
    main()
