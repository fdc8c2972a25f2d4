"""Small GIFs of videos, for READMEs."""

import subprocess
import tempfile
from pathlib import Path

import imageio_ffmpeg

from sb3_ext.common.process_start import starting_process
from sb3_ext.runs.files import atomic_write

__all__ = ["write_gif"]

_WIDTH, _FPS, _COLOURS = 640, 15, 64


def write_gif(video: Path, path: Path, width: int = _WIDTH) -> None:
    """
    Write a GIF with one palette for all pictures. ffmpeg reads the video twice instead of keeping its pictures.

    :raises OSError: when ffmpeg fails; it says why on stderr
    """
    smaller = f"fps={_FPS},scale={width}:-2:flags=area"
    with tempfile.TemporaryDirectory() as folder, atomic_write(path) as unfinished:
        palette = str(Path(folder, "palette.png"))
        _ffmpeg("-i", str(video), "-vf", f"{smaller},palettegen=max_colors={_COLOURS}:stats_mode=diff", palette)
        # Dithering would change pixels that stay the same, and triple the size
        used = f"[0:v]{smaller}[small];[small][1:v]paletteuse=dither=none:diff_mode=rectangle"
        _ffmpeg("-i", str(video), "-i", palette, "-lavfi", used, "-f", "gif", str(unfinished))


def _ffmpeg(*words: str) -> None:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", "-nostdin", *words]
    with starting_process():
        process = subprocess.Popen(command)
    try:
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if code:
        raise OSError(f"ffmpeg ended with exit code {code}: {' '.join(command)}")
