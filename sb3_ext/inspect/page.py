"""The page as one file: with its script and style, and with an episode if there is one."""

import json
from pathlib import Path
from typing import Any

__all__ = ["make_page"]

_VIEWER = Path(__file__).with_name("viewer")
_SCRIPTS = ("elements.js", "chart.js", "map.js", "episode.js", "training.js", "playground.js", "main.js")


def make_page(data: Any = None) -> str:
    """:param data: what the page shows without a server; ``None`` for the page of a server"""
    page, style = (_VIEWER / name for name in ("index.html", "style.css"))
    scripts = "\n".join((_VIEWER / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # A text in the data must not end the script element
    embedded = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    text = page.read_text(encoding="utf-8").replace("/*STYLE*/", style.read_text(encoding="utf-8"))
    return text.replace("/*SCRIPT*/", scripts).replace("/*DATA*/", embedded)
