"""Makes a model as ``rl_zoo3.train`` does, without its files."""

import argparse
import contextlib
import io
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import rl_zoo3.train  # noqa: F401  registers environments; the import hook registers us
import yaml
from rl_zoo3 import exp_manager
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.names import check_choice, nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.speed import Speed, measure

__all__ = ["check_names", "make_model", "measure_training"]


def check_names(algo: str, env_id: str, algos: Collection[str] = ALGOS) -> None:
    """:raises UsageError: when there is no such environment, or the algorithm is not one of ``algos``"""
    if env_id not in gym.registry:
        raise UsageError(f"There is no environment {env_id!r}: {nearest(env_id, list(gym.registry))}")
    try:
        check_choice("--algo", algo, algos)
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def make_model(
    algo: str,
    env_id: str,
    hyperparams: Mapping[str, Any],
    conf: str | None = None,
    seed: int = 0,
    section: Mapping[str, Any] | None = None,
) -> Iterator[OnPolicyAlgorithm]:
    """
    :param hyperparams: change the section
    :param conf: the section's file, by default the algorithm's own
    :param section: itself, instead
    """
    check_names(algo, env_id, [name for name, kind in ALGOS.items() if issubclass(kind, OnPolicyAlgorithm)])
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        if section is not None:
            conf = str(Path(folder, "section.yml"))
            Path(conf).write_text(yaml.safe_dump({env_id: dict(section)}), encoding="utf-8")
        manager = exp_manager.ExperimentManager(
            argparse.Namespace(),
            algo,
            env_id,
            folder,
            eval_freq=-1,
            hyperparams=dict(hyperparams),
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


def measure_training(
    algo: str,
    env_id: str,
    hyperparams: Mapping[str, Any],
    n_envs: int,
    rollout: int,
    seconds: float,
    section: Mapping[str, Any] | None = None,
) -> tuple[int, Speed]:
    """
    Train for about ``seconds``.

    :param rollout: steps of all environments together between two updates
    :return: ``n_steps`` and the speed
    """
    n_steps = max(2, rollout // n_envs)
    changed = {**hyperparams, "n_envs": n_envs, "n_steps": n_steps}
    with make_model(algo, env_id, changed, section=section) as model:
        return n_steps, measure(model, seconds)
