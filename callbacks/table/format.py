"""Numbers as text: values with their precision, and arrows for changes."""

import math

from sb3_ext.metrics.catalogue import MetricInfo

__all__ = ["arrow", "clock", "format_value", "trend"]

_UP, _DOWN = "▲", "▼"
#: Powers of ten beyond which numbers have an exponent
_SMALLEST, _LARGEST = -4, 7


def format_value(info: MetricInfo, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return str(float(value))
    if info.clock:
        return clock(value)
    if info.decimals is not None:
        return _plain_zero(f"{value:,.{info.decimals}f}")
    if not info.entry and float(value).is_integer() and abs(value) < 10**_LARGEST:
        return f"{value:,.0f}"  # not in the catalogue: most are counts
    return _significant(value, info.digits)


def _significant(value: float, digits: int) -> str:
    """With trailing zeros, because columns of changing numbers are easier to read that way."""
    if value == 0:
        return f"{0:.{digits - 1}f}"
    power = math.floor(math.log10(abs(value)))
    if not _SMALLEST <= power < _LARGEST:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(digits - 1 - power, 0)}f}"


def _plain_zero(text: str) -> str:
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def clock(seconds: float) -> str:
    """As h:mm:ss."""
    whole = round(seconds)
    sign = "-" if whole < 0 else ""
    minutes, seconds_left = divmod(abs(whole), 60)
    return f"{sign}{minutes // 60}:{minutes % 60:02}:{seconds_left:02}"


def arrow(info: MetricInfo, previous: float | str | None, value: float | str) -> str:
    """Up or down; empty if no change is visible."""
    if isinstance(value, str) or previous is None or isinstance(previous, str):
        return ""
    if not (math.isfinite(previous) and math.isfinite(value)):
        return ""
    if format_value(info, previous) == format_value(info, value):
        return ""
    return _UP if value > previous else _DOWN


def trend(info: MetricInfo, sign: str) -> str:
    """``good``, ``bad``, or empty if neither direction is better."""
    if not sign or not info.better:
        return ""
    return "good" if (sign == _UP) == (info.better == "higher") else "bad"
