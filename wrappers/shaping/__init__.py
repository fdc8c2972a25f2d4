"""Reward shaping, one file per kind or environment."""
