"""Callbacks: metrics, alerts, evaluation, checkpoints, tracking, reports.

One file a topic; each does one thing, asks the algorithm through public methods, and is usable from a YAML
``callback:`` line, with stock algorithms too.
"""
