"""Optuna: search spaces for RL Zoo's ``-optimize``, and reading a trial for ``--trial-id``."""

from collections.abc import Callable
from typing import Any

import optuna
from rl_zoo3.hyperparams_opt import (
    HYPERPARAMS_CONVERTER,
    HYPERPARAMS_SAMPLER,
    convert_onpolicy_params,
    sample_a2c_params,
    sample_ppo_params,
)

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.zoo.storage_errors import naming_storage

__all__ = ["read_trial", "register_samplers"]


def register_samplers() -> None:
    HYPERPARAMS_SAMPLER.update(a2c_ext=sample_a2c_params, reinforce=sample_reinforce_params)
    HYPERPARAMS_CONVERTER.update(a2c_ext=convert_onpolicy_params, reinforce=convert_reinforce_params)
    for algo in ("ppo_ext", "ppo_lstm_ext"):
        HYPERPARAMS_SAMPLER[algo] = sample_ppo_ext_params
        HYPERPARAMS_CONVERTER[algo] = convert_ppo_ext_params


def sample_ppo_ext_params(
    trial: optuna.Trial, n_actions: int, n_envs: int, additional_args: dict[str, Any]
) -> dict[str, Any]:
    """RL Zoo's space for PPO, and whether and where to stop an update early."""
    hyperparams: dict[str, Any] = sample_ppo_params(trial, n_actions, n_envs, additional_args)
    kl_stop = trial.suggest_categorical("kl_stop", [False, True])
    # Always sampled, so that the multivariate sampler sees one fixed space
    target_kl = trial.suggest_float("target_kl", 0.003, 0.1, log=True)
    return {**hyperparams, "target_kl": target_kl if kl_stop else None}


def convert_ppo_ext_params(sampled_params: dict[str, Any]) -> dict[str, Any]:
    of_ppo = {**sampled_params}
    kl_stop, target_kl = of_ppo.pop("kl_stop"), of_ppo.pop("target_kl")
    return {**convert_onpolicy_params(of_ppo), "target_kl": target_kl if kl_stop else None}


def sample_reinforce_params(
    trial: optuna.Trial, n_actions: int, n_envs: int, additional_args: dict[str, Any]
) -> dict[str, Any]:
    return convert_reinforce_params(
        {
            "n_steps_pow": trial.suggest_int("n_steps_pow", 4, 10),
            "batch_size_pow": trial.suggest_int("batch_size_pow", 6, 12),
            "one_minus_gamma": trial.suggest_float("one_minus_gamma", 0.0001, 0.03, log=True),
            "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            "ent_coef": trial.suggest_float("ent_coef", 1e-8, 0.1, log=True),
            "vf_coef": trial.suggest_float("vf_coef", 0.1, 1.0),
            "max_grad_norm": trial.suggest_float("max_grad_norm", 0.3, 2.0),
            "baseline": trial.suggest_categorical("baseline", ["none", "mean", "value"]),
            "normalize_returns": trial.suggest_categorical("normalize_returns", ["off", "batch", "rollout"]),
            "net_arch": trial.suggest_categorical("net_arch", ["tiny", "small", "medium"]),
            "activation_fn": trial.suggest_categorical("activation_fn", ["tanh", "relu"]),
        }
    )


def convert_reinforce_params(sampled_params: dict[str, Any]) -> dict[str, Any]:
    # RL Zoo's converter wants a GAE parameter, which REINFORCE doesn't have
    hyperparams: dict[str, Any] = convert_onpolicy_params({**sampled_params, "one_minus_gae_lambda": 0.0})
    del hyperparams["gae_lambda"]
    return hyperparams


def read_trial(
    load: Callable[..., dict[str, Any]], algo: str, storage: str, study_name: str, trial_id: int | None, convert: bool
) -> dict[str, Any]:
    """The parameters of a trial, with errors that say what is missing."""
    where = f"study {study_name!r} in {mask_passwords(storage)}"
    try:
        with naming_storage(storage):
            params = load(storage, study_name, trial_id, convert=False)
    except KeyError:
        raise ValueError(f"There is no {where}: see --study-name and --storage.") from None
    except IndexError:
        raise ValueError(f"There is no trial {trial_id} in the {where}: trials count from 0.") from None
    try:
        return HYPERPARAMS_CONVERTER[algo](params) if convert else params
    except KeyError as error:
        raise ValueError(
            f"Trial {trial_id} of the {where} has no {error}: it was made for another algorithm than {algo}, "
            "or it failed before its parameters were chosen."
        ) from None
