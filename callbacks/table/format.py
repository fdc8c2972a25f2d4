"""Numbers as text: values with their precision, and arrows for changes."""

from __future__ import annotations

import math

from sb3_ext.metrics.catalogue import MetricInfo

__all__ = ["arrow", "clock", "format_value", "trend"]

_UP, _DOWN = "▲", "▼"
#: Beyond these powers of ten, numbers are written with an exponent
_SMALLEST, _LARGEST = -4, 7


def format_value(info: MetricInfo, value: float | str) -> str:
    """
    :param info: says how precisely
    :param value: of the metric
    """
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return str(float(value))
    if info.clock:
        return clock(value)
    if info.decimals is not None:
        return _plain_zero(f"{value:,.{info.decimals}f}")
    if not info.entry and float(value).is_integer() and abs(value) < 10**_LARGEST:
        return f"{value:,.0f}"  # nobody said what it is: most are counts
    return _significant(value, info.digits)


def _significant(value: float, digits: int) -> str:
    """All digits that count, also zeros at the end: columns of numbers that change are easier to read so."""
    if value == 0:
        return f"{0:.{digits - 1}f}"
    power = math.floor(math.log10(abs(value)))
    if not _SMALLEST <= power < _LARGEST:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(digits - 1 - power, 0)}f}"


def _plain_zero(text: str) -> str:
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def clock(seconds: float) -> str:
    """
    :param seconds: of any length
    :return: h:mm:ss
    """
    whole = round(seconds)
    sign = "-" if whole < 0 else ""
    minutes, seconds_left = divmod(abs(whole), 60)
    return f"{sign}{minutes // 60}:{minutes % 60:02}:{seconds_left:02}"


def arrow(info: MetricInfo, previous: float | str | None, value: float | str) -> str:
    """
    :param info: says how precisely to compare
    :param previous: value in the row before; ``None`` when there was none
    :param value: value now
    :return: up or down; empty when no change can be seen
    """
    if isinstance(value, str) or previous is None or isinstance(previous, str):
        return ""
    if not (math.isfinite(previous) and math.isfinite(value)):
        return ""
    if format_value(info, previous) == format_value(info, value):
        return ""
    return _UP if value > previous else _DOWN


def trend(info: MetricInfo, sign: str) -> str:
    """
    :param info: says which direction is better
    :param sign: an arrow
    :return: ``good``, ``bad``, or empty where that can't be said
    """
    if not sign or not info.better:
        return ""
    return "good" if (sign == _UP) == (info.better == "higher") else "bad"
