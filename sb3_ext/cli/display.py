"""Whether a window can be opened."""

import os
import sys

__all__ = ["has_display"]


def has_display() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
