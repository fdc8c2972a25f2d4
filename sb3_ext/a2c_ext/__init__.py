"""A2CExt: SB3's A2C with schedules for its numbers and policies from names."""

from sb3_ext.a2c_ext.a2c_ext import A2CExt

__all__ = ["A2CExt"]
