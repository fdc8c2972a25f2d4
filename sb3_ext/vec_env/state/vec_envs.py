"""The states of all environments of a ``VecEnv``, and of the wrappers around it."""

import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecEnvWrapper, VecNormalize

from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.vec_env.state.layers import HOOK, CantSave, find_layers, load_layers, save_layers, signature
from sb3_ext.vec_env.state.one_env import check_env, check_signature, restore_env, save_env

__all__ = ["EnvStates", "restore_envs", "restore_statistics", "save_envs"]

#: Attributes of every vectorised environment
_COMMON = ("reset_infos", "_seeds", "_options")


@dataclass(frozen=True)
class EnvStates:
    """
    :param data: the states; those of the wrappers alone if there is a problem
    :param problem: why the states of the environments are not in it, in one sentence
    """

    data: bytes | None
    problem: str | None = None


@dataclass(frozen=True)
class _Saved:
    n_envs: int
    spaces: str
    wrappers: tuple[list[str], bytes]
    #: A state for each environment, which fits ``DummyVecEnv``, ``SubprocVecEnv`` and ``MulticoreVecEnv``; or that of
    #: the vectorised environment, with its signature; or ``None`` if there is a problem
    base: list[bytes] | tuple[list[str], bytes] | None
    common: bytes
    #: Of each ``VecNormalize``: means and variances of observations and returns
    statistics: list[dict[str, Any]]


def save_envs(env: VecEnv) -> EnvStates:
    """
    Save all that its environments and wrappers need to continue. Call it between two steps.

    :param env: the vectorised environment with its wrappers
    """
    wrappers, base = _split(env)
    problem, states, common = None, None, b""
    try:
        wrapper_states = signature(wrappers), save_layers(wrappers, [base])
        try:
            states = _save_base(base)
            common = _save_common(base)
        except CantSave as error:
            problem = f"{error}"
        except (RuntimeError, EOFError, OSError) as error:
            problem = f"The state of the environments can't be saved, since they don't answer: {error}"
        saved = _Saved(env.num_envs, _spaces(env), wrapper_states, states, common, _statistics(wrappers))
        return EnvStates(pickle.dumps(saved, pickle.HIGHEST_PROTOCOL), problem)
    except CantSave as error:
        return EnvStates(None, f"The state of a wrapper can't be saved: {error}.")


def restore_envs(env: VecEnv, states: EnvStates) -> None:
    """
    Continue where :func:`save_envs` was called. If there was a problem, only the wrappers get their state, and
    ``env.reset()`` must follow.

    :param env: the same environments and wrappers, made anew; ``DummyVecEnv``, ``SubprocVecEnv`` and
        ``MulticoreVecEnv`` can replace each other
    :param states: what ``save_envs`` returned
    :raises ValueError: if the states are those of other environments; then nothing was changed
    """
    if states.data is None:
        return
    saved: _Saved = pickle.loads(states.data)
    if saved.n_envs != env.num_envs:
        raise ValueError(f"The saved state is that of {saved.n_envs} environments, but there are {env.num_envs} now.")
    wrappers, base = _split(env)
    check_signature("chain of wrappers", saved.wrappers[0], signature(wrappers))
    if saved.spaces != _spaces(env):
        raise ValueError(f"The saved state is for {saved.spaces}, but the environments have {_spaces(env)}.")
    apply = load_layers(wrappers, saved.wrappers[1], [base])
    if saved.base is not None:
        _restore_base(base, saved.base)
        vars(base).update(pickle.loads(saved.common))
    apply()


def restore_statistics(env: VecEnv, states: EnvStates) -> None:
    """Restore only the statistics of ``VecNormalize``, as far as observations have the same shape: for other wrappers
    or another number of environments."""
    if states.data is None:
        return
    saved: _Saved = pickle.loads(states.data)
    normalizers = [wrapper for wrapper in _split(env)[0] if isinstance(wrapper, VecNormalize)]
    for normalizer, statistics in zip(normalizers, saved.statistics, strict=False):
        for name, value in statistics.items():
            if _shapes(value) == _shapes(getattr(normalizer, name, None)):
                setattr(normalizer, name, value)


def _statistics(wrappers: list[VecEnv]) -> list[dict[str, Any]]:
    normalizers = [wrapper for wrapper in wrappers if isinstance(wrapper, VecNormalize)]
    return [{name: vars(each)[name] for name in ("obs_rms", "ret_rms") if name in vars(each)} for each in normalizers]


def _shapes(statistics: Any) -> Any:
    if isinstance(statistics, dict):
        return {key: _shapes(part) for key, part in statistics.items()}
    return None if statistics is None else statistics.mean.shape


def _split(env: VecEnv) -> tuple[list[VecEnv], VecEnv]:
    wrappers: list[VecEnv] = []
    while isinstance(env, VecEnvWrapper):
        wrappers.append(env)
        env = env.venv
    return wrappers, env


def _spaces(env: VecEnv) -> str:
    return f"observations in {env.observation_space} and actions in {env.action_space}"


def _save_common(base: VecEnv) -> bytes:
    try:
        return pickle.dumps({name: getattr(base, name) for name in _COMMON})
    # An info may contain anything
    except Exception as error:
        raise CantSave(f"The infos of the last reset can't be pickled: {error}.") from error


def _save_base(base: VecEnv) -> list[bytes] | tuple[list[str], bytes]:
    if type(base) is DummyVecEnv:  # a subclass may have a state of its own
        return [save_env(env) for env in base.envs]
    if type(base) is MulticoreVecEnv:
        return base.call_with_envs(save_env)
    if type(base) is SubprocVecEnv:
        _attach_hook(base)
        return _without_errors(base.env_method(HOOK, "save"))
    layers = find_layers(base)
    try:
        return signature(layers), save_layers(layers)
    except CantSave as error:
        raise CantSave(f"The state of {type(base).__name__} can't be saved: {error}.") from error


def _restore_base(base: VecEnv, states: list[bytes] | tuple[list[str], bytes]) -> None:
    """Look at all states before the first one is restored."""
    has_envs = isinstance(base, (DummyVecEnv, MulticoreVecEnv, SubprocVecEnv))
    if has_envs != isinstance(states, list):
        raise ValueError(f"The saved state is not that of a {type(base).__name__}: use the same `ext: native`.")
    if isinstance(states, tuple):
        layers = find_layers(base)
        check_signature("environment", states[0], signature(layers))
        load_layers(layers, states[1])()
        return
    if isinstance(base, SubprocVecEnv):
        _attach_hook(base)
    for action in ("check", "restore"):
        for index, state in enumerate(states):
            if isinstance(base, DummyVecEnv):
                _ACTIONS[action](base.envs[index], state)
            elif isinstance(base, MulticoreVecEnv):
                base.call_with_envs(_ACTIONS[action], state, indices=[index])
            else:
                _without_errors(base.env_method(HOOK, action, state, indices=[index]))


_ACTIONS: dict[str, Callable[..., Any]] = {"save": save_env, "check": check_env, "restore": restore_env}


def _act(env: gym.Env, action: str, *args: Any) -> Any:
    try:
        return _ACTIONS[action](env, *args)
    # An exception would end SB3's process
    except Exception as error:
        return error


def _without_errors(results: list[Any]) -> list[Any]:
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class _AttachType(type):
    def __instancecheck__(cls, env: Any) -> bool:
        setattr(env, HOOK, functools.partial(_act, env))
        return True


class _Attach(gym.Wrapper, metaclass=_AttachType):
    """
    ``SubprocVecEnv`` can call methods of an environment, but not functions with an environment. It does ask whether an
    environment is wrapped in a class, which thus gets hold of the environment, and adds a method to it.
    """


def _attach_hook(base: SubprocVecEnv) -> None:
    if not all(base.env_is_wrapped(_Attach)):
        raise CantSave("The state of an environment without wrappers can't be saved in SubprocVecEnv: use DummyVecEnv.")
