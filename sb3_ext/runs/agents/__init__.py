"""Agents on disk: models, their VecNormalize statistics, and the environments they were trained in."""
