"""How a film looks: the style, and the pictures that are drawn with it. All sizes are pixels of a picture in 1080p."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont
from pydantic import AfterValidator, Field

from sb3_ext.common.options import Fraction, Integer, Items, Number, Options, Text

__all__ = ["HEIGHT", "WIDTH", "Cell", "Overlay", "OverlayStyle", "scaled"]

WIDTH, HEIGHT = 1920, 1080
_MARGIN = 15
_PANEL = 470
#: Pictures up to this height are pixel art, whose edges must stay sharp
_SMALL = 256
_FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")


def _checked_colour(text: str) -> str:
    try:
        ImageColor.getrgb(text)
    except ValueError:
        raise ValueError("must be a colour, such as 'white' or '#58a6ff'") from None
    return text


def _checked_font(path: str) -> str:
    try:
        ImageFont.truetype(path, 20)
    except OSError:
        raise ValueError("must be the file of a TrueType or OpenType font") from None
    return path


Colour = Annotated[Text, AfterValidator(_checked_colour)]
Place = Literal["right", "left", "top-left", "top-right", "bottom-left", "bottom-right"]
FieldName = Literal["score", "step", "action", "value", "reward", "probability", "entropy", "episode"]


class OverlayStyle(Options):
    """
    :param fields: what is shown, in this order
    :param position: beside the picture (``right``, ``left``), or in a box over one of its corners
    :param font: file of a font; default: DejaVu Sans
    :param font_size: of the numbers; other text has a size in proportion to it
    :param color: of the numbers
    :param label_color: of their names and of small text
    :param accent: colour of the score
    :param background: colour around the picture
    :param box: colour of the box over a corner
    :param opacity: of this box
    :param title_seconds: how long the title card is shown; 0: no title card
    :param hold_seconds: how long the last picture of an episode is shown
    """

    fields: Items[FieldName] = ("score", "step", "action", "value")
    position: Place = "right"
    font: Annotated[Text, AfterValidator(_checked_font)] | None = None
    font_size: Annotated[Integer, Field(ge=12, le=120)] = 46
    color: Colour = "#f0f6fc"
    label_color: Colour = "#9da7b3"
    accent: Colour = "#58a6ff"
    background: Colour = "#0d1117"
    box: Colour = "#0d1117"
    opacity: Fraction = 0.85
    title_seconds: Annotated[Number, Field(ge=0, le=60)] = 3.0
    hold_seconds: Annotated[Number, Field(ge=0, le=60)] = 1.0


class Cell(NamedTuple):
    """One of several pictures that are shown together. ``is_over``: it does not change any more."""

    picture: np.ndarray
    caption: str
    score: str
    is_over: bool


def scaled(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """As large as fits, with the same aspect ratio. Pixel art grows by a whole factor, if it grows."""
    rows, columns = picture.shape[:2]
    factor = min(width / columns, height / rows)
    is_pixel_art = rows <= _SMALL and factor > 1
    if is_pixel_art:
        factor = math.floor(factor)
    size = (max(round(columns * factor), 1), max(round(rows * factor), 1))
    smooth = cv2.INTER_CUBIC if factor > 1 else cv2.INTER_AREA
    return cv2.resize(picture, size, interpolation=cv2.INTER_NEAREST if is_pixel_art else smooth)


class Overlay:
    """Draws pictures of a film in a style."""

    def __init__(self, style: OverlayStyle) -> None:
        self._style = style
        self._canvas = np.full((HEIGHT, WIDTH, 3), ImageColor.getrgb(style.background)[:3], np.uint8)

    def title(self, heading: str, lines: Sequence[str], highlight: str = "") -> np.ndarray:
        """
        A title card.

        :param highlight: last line, in the colour of the score
        """
        style, size = self._style, self._style.font_size
        image = Image.fromarray(self._canvas)
        draw = ImageDraw.Draw(image)
        y = (HEIGHT - size * (4.3 + 1.5 * len(lines) + 1.7 * bool(highlight))) / 2
        font = self._fitting(heading, WIDTH - 200, size * 2.2, bold=True)
        draw.text((WIDTH / 2, y), heading, style.color, font, anchor="ma")
        y += size * 3.1
        draw.rounded_rectangle((WIDTH / 2 - 60, y, WIDTH / 2 + 60, y + 6), 3, style.accent)
        y += size * 1.2
        for line in lines:
            font = self._fitting(line, WIDTH - 200, size * 1.1)
            draw.text((WIDTH / 2, y), line, style.label_color, font, anchor="ma")
            y += size * 1.5
        font = self._fitting(highlight, WIDTH - 200, size * 1.2, bold=True)
        draw.text((WIDTH / 2, y + size * 0.2), highlight, style.accent, font, anchor="ma")
        return np.asarray(image)

    def frame(
        self, picture: np.ndarray, heading: Sequence[str], texts: Mapping[str, str], progress: float | None = None
    ) -> np.ndarray:
        """
        A picture with its numbers.

        :param heading: lines above the numbers, the first one the largest
        :param texts: the numbers by name
        :param progress: how far training was, as a bar at the bottom
        """
        position = self._style.position
        is_beside = position in ("left", "right")
        panel = self._column(heading, texts) if is_beside else self._box(heading, texts)
        picture = scaled(picture, WIDTH - 2 * _MARGIN - is_beside * (_PANEL + 4 * _MARGIN), HEIGHT - 2 * _MARGIN)
        rows, columns = picture.shape[:2]
        picture_x = (WIDTH - columns) // 2
        if is_beside:
            left = (WIDTH - columns - 3 * _MARGIN - _PANEL) // 2
            is_right = position == "right"
            picture_x, x = (left, left + columns + 3 * _MARGIN) if is_right else (left + _PANEL + 3 * _MARGIN, left)
            y = (HEIGHT - panel.height) // 2
        else:
            # Over the picture, unless there is room beside it
            edge = 2 * _MARGIN + (picture_x if picture_x < panel.width + 3 * _MARGIN else 0)
            x = edge if "left" in position else WIDTH - panel.width - edge
            y = 2 * _MARGIN if "top" in position else HEIGHT - panel.height - 2 * _MARGIN
        image = Image.fromarray(self._canvas)
        image.paste(Image.fromarray(picture), (picture_x, (HEIGHT - rows) // 2))
        image.paste(panel, (x, y), panel)
        if progress is not None:
            ImageDraw.Draw(image).rectangle((0, HEIGHT - 8, WIDTH * progress, HEIGHT), self._style.accent)
        return np.asarray(image)

    def grid(self, cells: Sequence[Cell]) -> np.ndarray:
        """Several pictures, each with a line below it."""
        style = self._style
        size = style.font_size * (0.9 if len(cells) <= 4 else 0.7)
        strip = round(size * 1.9)
        columns = _best_columns(len(cells), cells[0].picture.shape, strip)
        width, height = WIDTH // columns, HEIGHT // -(-len(cells) // columns)
        image = Image.fromarray(self._canvas)
        draw = ImageDraw.Draw(image)
        for index, cell in enumerate(cells):
            x, y = index % columns * width, index // columns * height
            picture = scaled(cell.picture, width - 2 * _MARGIN, height - strip - _MARGIN)
            rows, cols = picture.shape[:2]
            left, top = x + (width - cols) // 2, y + (height - strip - rows) // 2 + _MARGIN // 2
            if cell.is_over:
                picture = cv2.addWeighted(picture, 0.55, np.zeros_like(picture), 0.45, 0)
            image.paste(Image.fromarray(picture), (left, top))
            # A narrow picture has no room for two texts below it
            room = max(cols, min(width - 2 * _MARGIN, size * 13))
            middle, baseline = x + width / 2, top + rows + size * 1.25
            font = self._fitting(cell.caption, room * 0.55, size)
            draw.text((middle - room / 2, baseline), cell.caption, style.label_color, font, anchor="ls")
            font = self._fitting(cell.score, room * 0.4, size, bold=True)
            draw.text((middle + room / 2, baseline), cell.score, style.accent, font, anchor="rs")
        return np.asarray(image)

    def _column(self, heading: Sequence[str], texts: Mapping[str, str]) -> Image.Image:
        """Names above their numbers."""
        style = self._style
        lines = 2.25 + (len(heading) - 1) * 0.825  # in sizes of the font
        size = min(style.font_size, (HEIGHT - 2 * _MARGIN) / (lines + len(texts) * 2.67))
        small, step, top = size * 0.55, size * 2.67, size * lines
        image = Image.new("RGBA", (_PANEL, round(top + len(texts) * step)))
        draw = ImageDraw.Draw(image)
        for index, line in enumerate(heading):
            font = self._fitting(line, _PANEL, small * 1.1 if index else size * 0.95, bold=not index)
            y = size * 1.25 + (index - 1) * small * 1.5 if index else 0
            draw.text((0, y), line, style.label_color if index else style.color, font)
        for index, (name, text) in enumerate(texts.items()):
            y = top + index * step
            draw.text((0, y), name.upper(), style.label_color, self._font(small))
            large = self._fitting(text, _PANEL, size * 1.25, bold=name == "score")
            # On one line, also where the text had to shrink
            at = (0, y + small * 1.3 + size * 1.25)
            draw.text(at, text, style.accent if name == "score" else style.color, large, anchor="ls")
        return image

    def _box(self, heading: Sequence[str], texts: Mapping[str, str]) -> Image.Image:
        """Names before their numbers, on a box."""
        style = self._style
        lines = 1.8 + 1.1 * len(heading) + 1.45 * len(texts)  # in sizes of the font
        size = min(style.font_size * 0.75, (HEIGHT - 4 * _MARGIN) / lines)
        pad, line = size * 0.8, size * 1.45
        names = max((self._font(size).getlength(name.capitalize()) for name in texts), default=0)
        width, height = round(_PANEL * 0.9), round(size * lines)
        image = Image.new("RGBA", (width, height))
        draw = ImageDraw.Draw(image)
        fill = (*ImageColor.getrgb(style.box)[:3], round(255 * style.opacity))
        draw.rounded_rectangle((0, 0, width - 1, height - 1), 18, fill)
        y = pad
        for index, text in enumerate(heading):
            font = self._fitting(text, width - 2 * pad, size * 0.8, bold=not index)
            draw.text((pad, y), text, style.label_color if index else style.color, font)
            y += size * 1.1
        y += size * 0.5
        for name, text in texts.items():
            draw.text((pad, y + size), name.capitalize(), style.label_color, self._font(size), anchor="ls")
            font = self._fitting(text, width - names - 3 * pad, size, bold=name == "score")
            color = style.accent if name == "score" else style.color
            draw.text((width - pad, y + size), text, color, font, anchor="rs")
            y += line
        return image

    def _font(self, size: float, bold: bool = False) -> ImageFont.FreeTypeFont:
        return _load_font(self._style.font or str(_FONTS / f"DejaVuSans{'-Bold' * bold}.ttf"), round(size))

    def _fitting(self, text: str, width: float, size: float, bold: bool = False) -> ImageFont.FreeTypeFont:
        """A font in which the text is not wider than that, unless it is very long."""
        length = self._font(size, bold).getlength(text)
        return self._font(max(size * min(1.0, width / max(length, 1)), 8), bold)


@functools.lru_cache(maxsize=64)
def _load_font(path: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size)


def _best_columns(count: int, shape: tuple[int, ...], strip: int) -> int:
    """The number of columns with which pictures are largest."""

    def factor(columns: int) -> float:
        rows = -(-count // columns)
        return min(WIDTH / columns / shape[1], (HEIGHT / rows - strip) / shape[0])

    return max(range(1, count + 1), key=factor)
