"""Numbers about an episode, from the wrappers that know them to the logger.

At the step that ends an episode a wrapper adds its numbers to ``info["ext_episode"]``, a flat dict of metric name to
float; the callback ``EpisodeMetrics`` records their means. Vectorised environments hand ``info`` on as it is, also from
other processes, so nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EPISODE_KEY", "report"]

# Key of ``info`` under which the numbers of a finished episode are.
EPISODE_KEY = "ext_episode"


def report(info: dict[str, Any], numbers: Mapping[str, float]) -> None:
    """Add numbers about the episode that this step ends; numbers of other wrappers stay.

    :param info: The step's info, changed in place.
    :param numbers: Metric name (``reward/height``) to value.
    """
    collected = info.setdefault(EPISODE_KEY, {})
    for name, value in numbers.items():
        collected[name] = float(value)
