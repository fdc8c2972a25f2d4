"""Mistakes that show only when a training is set up."""

import dis
import re

import gymnasium as gym
from rl_zoo3.utils import ALGOS
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.files import Section

__all__ = ["check_masks", "raise_if_mistake"]

_PACKAGES = ("ale_py", "gymnasium", "rl_zoo3", "sb3_contrib", "sb3_ext", "stable_baselines3")
_KINDS = (AssertionError, ImportError, TypeError, ValueError, gym.error.Error)
_RAISE = dis.opmap["RAISE_VARARGS"]


def raise_if_mistake(error: Exception, section: Section, flag: str = "") -> None:
    """
    While a training is set up, SB3, RL Zoo, Gymnasium and our own code check what they are given: with ``raise`` and
    ``assert``, and a message for the user. Other errors, such as those of a wrong call, are bugs, unless the wrong
    argument is one of the section.

    :param section: what was given
    :param flag: that the error is about, if it is not about the section
    :raises UsageError: when the error is about a mistake of the user
    """
    if isinstance(error, UsageError) or not isinstance(error, _KINDS) or not str(error):
        return
    unexpected = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    path = None if unexpected is None else section.path_to(unexpected[1])
    if path is not None:
        raise UsageError(f"{section.where(path)}: {': '.join(map(str, path))}: {error}") from error
    if _is_on_purpose(error):
        lines = [" ".join(line.split()) for line in str(error).splitlines()]
        raise UsageError("\n".join([f"{flag or section.where_named(lines[0])}: {lines[0]}", *lines[1:3]])) from error


def _is_on_purpose(error: Exception) -> bool:
    """Whether one of the packages raised it, and not because of another error. Our own say what the other one means."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    package = str(traceback.tb_frame.f_globals.get("__name__")).split(".")[0]
    hides_another = error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
    if package not in _PACKAGES or (hides_another and package != "sb3_ext"):
        return False
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == _RAISE


def check_masks(algo: str, env: VecEnv | None) -> None:
    """sb3-contrib looks for them only when it collects the first rollout."""
    if issubclass(ALGOS[algo], MaskablePPO) and env is not None and not is_masking_supported(env):
        env_id = env.get_attr("spec")[0].id
        raise UsageError(f"{algo} needs an environment with a method action_masks, and {env_id} has none: use ppo_ext.")
