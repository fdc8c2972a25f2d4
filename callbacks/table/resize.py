"""Rich's live display, in a terminal that is resized.

Rich moves up by the number of lines it wrote. If the terminal became narrower, these lines now take more rows; if it
became lower, the upper ones have left the screen. Both would leave half a table behind.
"""

import math
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType

__all__ = ["ResizableLive"]


class ResizableLive(Live):
    """Refreshed by hand, and cropped to the terminal."""

    def __init__(self, console: Console, get_renderable: Callable[[], RenderableType]) -> None:
        super().__init__(console=console, auto_refresh=False, vertical_overflow="crop", get_renderable=get_renderable)
        self._live_render = self._render = _Render(console)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        processed = super().process_renderables(renderables)
        if not all(isinstance(renderable, Control) for renderable in renderables):
            self._render.gone = []  # a message follows them, which must not be erased
        return processed


class _Render(LiveRender):
    def __init__(self, console: Console) -> None:
        super().__init__("", vertical_overflow="crop")
        self._console = console
        self._size = console.size
        #: Widths of the last lines
        self._widths: list[int] = []
        #: Widths of lines above the screen, which come back when it grows
        self.gone: list[int] = []

    def position_cursor(self) -> Control:
        if not self._widths:
            return Control()
        size = self._console.size
        if size == self._size:
            n_rows = len(self._widths)
        else:
            self._size = size
            n_rows = self._rows_after_resize()
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * (n_rows - 1)
        return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *up)

    def _rows_after_resize(self) -> int:
        """Rows of the screen that the last lines now take."""
        lines, self.gone = [*self.gone, *self._widths], []
        rows = [max(math.ceil(line / max(self._size.width, 1)), 1) for line in lines]
        hidden = sum(rows) - self._size.height
        while hidden > 0:
            hidden -= rows[len(self.gone)]
            self.gone.append(lines[len(self.gone)])
        return min(sum(rows), self._size.height)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [0]
        for segment in super().__rich_console__(console, options):
            if segment.text == "\n":  # type: ignore[union-attr]
                widths.append(0)
            else:
                widths[-1] += segment.cell_length  # type: ignore[union-attr]
            yield segment
        self._widths = widths
