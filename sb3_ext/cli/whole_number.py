"""The type of options that count something."""

import argparse

__all__ = ["whole_number"]


def whole_number(text: str) -> int:
    """For argparse: a number above 0, also as ``2e5``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value.is_integer() and value > 0):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number above 0")
    return int(value)
