from collections.abc import Sequence
from typing import Any

import numpy as np

N_METRICS: int

class Kernel:
    def __init__(
        self,
        actor: tuple[int, ...],
        critic: tuple[int, ...],
        activation: int,
        head: int,
        sizes: tuple[int, ...],
        one_hot: bool,
        isa: str = "auto",
        /,
    ) -> None: ...
    def act(
        self, params: list[np.ndarray], observations: np.ndarray, noise: np.ndarray | None, out: np.ndarray, /
    ) -> None: ...
    def evaluate(
        self,
        actor: list[np.ndarray],
        critic: list[np.ndarray],
        observations: np.ndarray,
        actions: np.ndarray | None,
        values: np.ndarray,
        log_probs: np.ndarray,
        /,
    ) -> None: ...
    def choose(
        self, outputs: np.ndarray, log_std: np.ndarray, noise: np.ndarray | None, out: np.ndarray, /
    ) -> None: ...
    def log_probs(self, outputs: np.ndarray, log_std: np.ndarray, actions: np.ndarray, out: np.ndarray, /) -> None: ...
    def loss(
        self,
        outputs: np.ndarray,
        values: np.ndarray,
        log_std: np.ndarray,
        actions: np.ndarray,
        columns: np.ndarray,
        of_outputs: np.ndarray,
        of_values: np.ndarray,
        of_log_std: np.ndarray,
        metrics: np.ndarray,
        loss: tuple[Any, ...],
        /,
    ) -> None: ...
    def update(
        self,
        actor: Sequence[Any],
        critic: Sequence[Any],
        observations: np.ndarray,
        actions: np.ndarray,
        columns: np.ndarray,
        orders: np.ndarray,
        bounds: np.ndarray,
        metrics: np.ndarray,
        count: np.ndarray,
        n_epochs: int,
        loss: tuple[Any, ...],
        limit: tuple[Any, ...],
        optimizer: tuple[Any, ...],
        two_threads: bool,
        /,
    ) -> tuple[int, int, bool, float]: ...

def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    episode_starts: np.ndarray,
    last_values: np.ndarray,
    last_dones: np.ndarray,
    advantages: np.ndarray,
    returns: np.ndarray,
    n_steps: int,
    n_envs: int,
    gamma: float,
    gae_lambda: float,
    /,
) -> None: ...
