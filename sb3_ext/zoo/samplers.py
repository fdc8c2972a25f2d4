"""Optuna: search spaces for RL Zoo's ``-optimize``, and reading a trial for ``--trial-id``.

A parameter is sampled only if it has an effect. RL Zoo's TPE then samples jointly what all trials have in common, and
the rest one by one, from the trials that have it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import optuna
from gymnasium import spaces
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from rl_zoo3.hyperparams_opt import (
    HYPERPARAMS_CONVERTER,
    HYPERPARAMS_SAMPLER,
    convert_onpolicy_params,
    sample_a2c_params,
    sample_ppo_params,
)
from stable_baselines3.common.preprocessing import is_image_space

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.zoo.storage_errors import naming_storage

__all__ = ["OBSERVATIONS", "kind_of", "read_trial", "register_samplers"]

#: Attribute of a trial: the kind of observations. It is there if what is sampled for the environment can be applied
OBSERVATIONS = "observation_kind"
_EXTRACTORS = {"image": ["NatureCNN", "ImpalaCNN"], "discrete": ["FlattenExtractor", "DiscreteEmbedding"]}
_SCHEDULES = {
    "learning_rate": ["constant", "linear", "cosine"],
    "clip_range": ["constant", "linear"],
    "ent_coef": ["constant", "linear"],
}


def register_samplers() -> None:
    samplers = {"a2c_ext": _sample_a2c, "reinforce": _sample_reinforce, "ppo_ext": _sample_ppo}
    samplers |= {"ppo_lstm_ext": _sample_ppo_lstm, "ppo_mask_ext": _sample_ppo}
    for algo, sample in samplers.items():
        HYPERPARAMS_SAMPLER[algo] = partial(_sample, sample)
        HYPERPARAMS_CONVERTER[algo] = convert_params


def kind_of(observations: spaces.Space, policy: Any) -> str:
    """:return: ``vector``, ``image``, ``discrete`` or ``other``"""
    if isinstance(observations, spaces.Discrete | spaces.MultiDiscrete):
        return "discrete"
    if is_image_space(observations) and str(policy).startswith("Cnn"):
        return "image"
    return "vector" if isinstance(observations, spaces.Box) and len(observations.shape) == 1 else "other"


def _sample(
    sample: Callable[[optuna.Trial], None],
    trial: optuna.Trial,
    n_actions: int,
    n_envs: int,
    additional_args: dict[str, Any],
) -> dict[str, Any]:
    """:return: hyperparameters of the model. ``normalize`` is not one: our manager reads it from the trial"""
    sample(trial)
    for name, shapes in _SCHEDULES.items():
        is_adapted = name == "learning_rate" and trial.params.get("kl_control") == "adaptive_lr"
        if name in trial.params and not is_adapted:
            trial.suggest_categorical(f"{name}_schedule", shapes)
    kind = trial.user_attrs.get(OBSERVATIONS)
    if kind is not None:
        popart = ["popart"] if "kl_control" in trial.params else []
        trial.suggest_categorical("rewards", ["raw", "vec_normalize", *popart])
    if kind == "vector":
        trial.suggest_categorical("observations", ["raw", "vec_normalize", "policy"])
    elif kind in _EXTRACTORS:
        trial.suggest_categorical("extractor", _EXTRACTORS[kind])
    return {key: value for key, value in convert_params(trial.params).items() if key != "normalize"}


def _sample_ppo(trial: optuna.Trial) -> None:
    sample_ppo_params(trial, 0, 1, {})
    trial.suggest_categorical("value_loss", ["mse", "huber"])
    kl_control = trial.suggest_categorical("kl_control", ["none", "stop", "rollback", "adaptive_lr"])
    if kl_control != "none":
        trial.suggest_float("target_kl", 0.003, 0.1, log=True)
    if kl_control in ("stop", "rollback"):
        trial.suggest_categorical("kl_stop_scope", ["minibatch", "epoch"])


def _sample_ppo_lstm(trial: optuna.Trial) -> None:
    _sample_ppo(trial)
    trial.suggest_categorical("lstm_hidden_size", [32, 64, 128, 256])
    trial.suggest_categorical("critic_memory", ["own", "shared", "none"])


def _sample_a2c(trial: optuna.Trial) -> None:
    sample_a2c_params(trial, 0, 1, {})


def _sample_reinforce(trial: optuna.Trial) -> None:
    trial.suggest_int("n_steps_pow", 4, 10)
    trial.suggest_int("batch_size_pow", 6, 12)
    trial.suggest_float("one_minus_gamma", 0.0001, 0.03, log=True)
    trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
    trial.suggest_float("ent_coef", 1e-8, 0.1, log=True)
    trial.suggest_float("vf_coef", 0.1, 1.0)
    trial.suggest_float("max_grad_norm", 0.3, 2.0)
    trial.suggest_categorical("baseline", ["none", "mean", "value"])
    trial.suggest_categorical("normalize_returns", ["off", "batch", "rollout"])
    trial.suggest_categorical("net_arch", ["tiny", "small", "medium"])
    trial.suggest_categorical("activation_fn", ["tanh", "relu"])


def convert_params(sampled_params: dict[str, Any]) -> dict[str, Any]:
    """:return: keys of a section, with values that YAML can express"""
    params = {**sampled_params}
    shapes = {name: params.pop(f"{name}_schedule", "constant") for name in _SCHEDULES if name in params}
    ours = _convert_normalization(params) | _convert_kl_control(params)
    policy_kwargs = _convert_network(params)
    # RL Zoo's converter wants a GAE parameter, which REINFORCE doesn't have
    hyperparams: dict[str, Any] = convert_onpolicy_params({"one_minus_gae_lambda": 0.0, **params})
    if "one_minus_gae_lambda" not in params:
        del hyperparams["gae_lambda"]
    schedules = {name: _schedule(hyperparams[name], shape) for name, shape in shapes.items()}
    policy_kwargs = {**hyperparams["policy_kwargs"], "activation_fn": params["activation_fn"], **policy_kwargs}
    return {**hyperparams, **schedules, **ours, "policy_kwargs": policy_kwargs}


def _schedule(value: float, shape: str) -> Any:
    return {"constant": value, "linear": f"lin_{value}", "cosine": {"start": value, "shape": "cosine"}}[shape]


def _convert_kl_control(params: dict[str, Any]) -> dict[str, Any]:
    if "kl_control" not in params:
        return {}
    kl_control, target_kl = params.pop("kl_control"), params.pop("target_kl", None)
    return {
        "target_kl": target_kl if kl_control in ("stop", "rollback") else None,
        "kl_adaptive_lr": target_kl if kl_control == "adaptive_lr" else None,
        "kl_rollback": kl_control == "rollback",
    }


def _convert_normalization(params: dict[str, Any]) -> dict[str, Any]:
    """Takes them out of the parameters, except the part of the policy."""
    rewards = params.pop("rewards", None)
    if rewards is None:
        return {}
    normalize = {"norm_obs": params.get("observations") == "vec_normalize", "norm_reward": rewards == "vec_normalize"}
    popart = {"normalize_values": rewards == "popart"} if "kl_control" in params else {}
    return {"normalize": normalize if any(normalize.values()) else False, **popart}


def _convert_network(params: dict[str, Any]) -> dict[str, Any]:
    policy_kwargs: dict[str, Any] = {}
    extractor = params.pop("extractor", None)
    if params.pop("observations", None) == "policy":
        extractor = "NormalizedMlp"
    if extractor is not None:
        policy_kwargs["features_extractor_class"] = extractor
    if "critic_memory" in params:
        memory = params.pop("critic_memory")
        policy_kwargs |= {"lstm_hidden_size": params.pop("lstm_hidden_size")}
        policy_kwargs |= {"enable_critic_lstm": memory == "own", "shared_lstm": memory == "shared"}
    return policy_kwargs


def read_trial(algo: str, storage: str, study_name: str, trial_id: int | None, convert: bool) -> dict[str, Any]:
    """
    The parameters of a trial, as keys of a section, with errors that say what is missing. A trial of ``sb3-ext tune``
    has its whole section.
    """
    where = f"study {study_name!r} in {mask_passwords(storage)}"
    is_journal = storage.endswith(".log")
    try:
        with naming_storage(storage):
            opened = JournalStorage(JournalFileBackend(storage)) if is_journal else storage
            study = optuna.load_study(study_name=study_name, storage=opened)
            trial = study.best_trial if trial_id is None else study.trials[trial_id]
    except KeyError:
        raise ValueError(f"There is no {where}: see --study-name and --storage.") from None
    except IndexError:
        raise ValueError(f"There is no trial {trial_id} in the {where}: trials count from 0.") from None
    try:
        if convert and "section" in trial.user_attrs:
            return trial.user_attrs["section"]
        return HYPERPARAMS_CONVERTER[algo](trial.params) if convert else trial.params
    except KeyError as error:
        raise ValueError(
            f"Trial {trial_id} of the {where} has no {error}: it was made for another algorithm than {algo}, "
            "or it failed before its parameters were chosen."
        ) from None
