"""The types of options that are numbers."""

import argparse

__all__ = ["positive_number", "seed_number", "whole_number"]


def whole_number(text: str) -> int:
    """For argparse: a number above 0, also as ``2e5``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value.is_integer() and value > 0):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number above 0")
    return int(value)


def seed_number(text: str) -> int:
    """For argparse: a whole number from 0, within what generators of random numbers take."""
    if not (text.isdecimal() and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number from 0 to {2**32 - 1}")
    return int(text)


def positive_number(text: str) -> float:
    """For argparse: a number above 0, up to 100,000."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} must be a number above 0")
    return value
