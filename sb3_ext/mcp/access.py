"""What the user lets clients do."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Access"]


@dataclass(frozen=True)
class Access:
    """
    :param log_folder: the only folder whose runs are read and written; resolved
    :param max_steps: timesteps that one training may take
    :param max_processes: trainings at the same time
    :param max_seconds: for playing an episode or checking a config
    :param packages: modules that register environments
    :param read_only: no training can be started, stopped or resumed
    """

    log_folder: Path
    max_steps: int
    max_processes: int
    max_seconds: float
    packages: tuple[str, ...] = ()
    read_only: bool = False
