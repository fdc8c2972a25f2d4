"""Makes a model as ``rl_zoo3.train`` does, without its files."""

import argparse
import contextlib
import io
import tempfile
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import rl_zoo3.train  # noqa: F401  registers environments; the import hook registers us
from rl_zoo3 import exp_manager
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.names import check_choice, nearest

__all__ = ["make_model"]


@contextlib.contextmanager
def make_model(
    algo: str, env_id: str, hyperparams: dict[str, Any], conf: str | None = None, seed: int = 0
) -> Iterator[OnPolicyAlgorithm]:
    """``hyperparams`` change the section of the file ``conf``, by default the algorithm's own."""
    if env_id not in gym.registry:
        raise ValueError(f"There is no environment {env_id!r}: {nearest(env_id, list(gym.registry))}")
    on_policy = [name for name, algorithm in ALGOS.items() if issubclass(algorithm, OnPolicyAlgorithm)]
    check_choice("--algo", algo, on_policy)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        manager = exp_manager.ExperimentManager(
            argparse.Namespace(),
            algo,
            env_id,
            folder,
            eval_freq=-1,
            hyperparams=hyperparams,
            seed=seed,
            verbose=0,
            config=conf,
        )
        results = manager.setup_experiment()
        assert results is not None
        model = results[0]
        try:
            yield model  # type: ignore[misc]
        finally:
            assert model.env is not None
            model.env.close()
