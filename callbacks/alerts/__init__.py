"""Alerts: rules check every row of metrics, and say what is wrong and what to tune."""

from sb3_ext.callbacks.alerts.callback import Alerts

__all__ = ["Alerts"]
