"""A2CExt: SB3's A2C with schedules, policies by name and the fast path."""

from sb3_ext.a2c_ext.a2c_ext import A2CExt

__all__ = ["A2CExt"]
