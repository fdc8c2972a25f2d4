"""Vectorised environments whose members differ: several environments, or several configurations of one.

``DummyVecEnv``, ``SubprocVecEnv`` and ``MulticoreVecEnv`` take a function for each environment, so it is enough that
the functions differ:

    members:
      - {name: earth, weight: 2}
      - {name: moon, env_kwargs: {gravity: -1.62}}
      - {name: storm, env_kwargs: {enable_wind: true, wind_power: 20}}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, SupportsFloat

import gymnasium as gym
from pydantic import AfterValidator, Field, StringConstraints, model_validator
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.options import Count, Items, Number, Options, read_options
from sb3_ext.wrappers.base import Recorded, report
from sb3_ext.wrappers.env_variants import EnvVariant

__all__ = [
    "Member",
    "MemberEnv",
    "Members",
    "check_members",
    "member_fns",
    "members_of_envs",
    "mixed",
    "once_each",
    "read_members",
]

#: SB3's logger cuts long names of metrics, and stops a training if two become the same
_LONGEST_NAME = 24


class Member(EnvVariant):
    """
    One of the environments that are trained in at once.

    :param name: its name in metrics; by default its id and arguments, or its number
    :param count: number of environments of this kind
    :param weight: relative number of environments, where no counts are given
    """

    name: Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_NAME)] = ""
    count: Count | None = None
    weight: Annotated[Number, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _check(self) -> Member:
        if {"count", "weight"} <= self.model_fields_set:
            raise ValueError("count and weight can't be given both")
        return self


def _complete_members(members: tuple[Member, ...]) -> tuple[Member, ...]:
    labels = [member.label if 0 < len(member.label) <= _LONGEST_NAME else "" for member in members]
    names = [member.name or labels[index] or f"{index + 1}" for index, member in enumerate(members)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two have the name {name!r}: give each its own name")
    counted = [member.count is not None for member in members]
    if any(counted) and not all(counted):
        raise ValueError(f"{names[counted.index(False)]!r} has no count: give one to all of them, or to none")
    return tuple(member.model_copy(update={"name": name}) for member, name in zip(members, names, strict=True))


Members = Annotated[Items[Member], Field(min_length=1), AfterValidator(_complete_members)]


class MixedOptions(Options):
    members: Members


def read_members(raw: Any) -> tuple[Member, ...]:
    """:param raw: a list, as under ``members`` in a config"""
    return read_options(MixedOptions, {"members": raw}, "ext").members


class MemberEnv(gym.Wrapper, Recorded):
    """Reports the score and the length of each episode under the member's name."""

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self.member = name

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "episode" in info:
            episode = info["episode"]
            report(info, {f"member/{self.member}/score": episode["r"], f"member/{self.member}/length": episode["l"]})
        return observation, reward, terminated, truncated, info


def members_of_envs(members: Sequence[Member], n_envs: int) -> list[Member]:
    """The member of each environment. Members are spread evenly, so that processes have equal work."""
    counts = _counts(members, n_envs)
    places = [((turn + 0.5) / count, index) for index, count in enumerate(counts) for turn in range(count)]
    return [members[index] for _, index in sorted(places)]


def _counts(members: Sequence[Member], n_envs: int) -> list[int]:
    given = [member.count for member in members if member.count is not None]
    if given:
        if sum(given) != n_envs:
            raise ValueError(f"members: their counts add up to {sum(given)} environments, but n_envs is {n_envs}.")
        return given
    if n_envs < len(members):
        raise ValueError(f"members: there are {len(members)}, but n_envs is only {n_envs}: each needs an environment.")
    # One for each, then always one for the member with the fewest for its weight
    counts = [1] * len(members)
    for _ in range(n_envs - len(members)):
        index_of_fewest = min(range(len(members)), key=lambda index: (counts[index] + 1) / members[index].weight)
        counts[index_of_fewest] += 1
    return counts


def once_each(members: Sequence[Member]) -> tuple[Member, ...]:
    """The same members with equal shares, for evaluation: the mean score is the mean over the members."""
    return tuple(member.model_copy(update={"count": None, "weight": 1.0}) for member in members)


def check_members(members: Sequence[Member], make_env: Callable[[], gym.Env]) -> None:
    """:raises ValueError: if one can't be made, or has other spaces than the environment that they are variants of"""
    base = make_env()
    try:
        for member in members:
            if not member.is_plain:
                _make(member, base).close()
    finally:
        base.close()


def member_fns(
    members: Sequence[Member],
    make_env: Callable[[], gym.Env],
    n_envs: int,
    *,
    env_wrapper: Callable[[gym.Env], gym.Env] | None = None,
    seed: int | None = None,
    monitor_dir: str | None = None,
    monitor_kwargs: Mapping[str, Any] | None = None,
) -> list[Callable[[], gym.Env]]:
    """
    :param members: the members
    :param make_env: makes the environment that they are variants of
    :param n_envs: number of environments
    :param env_wrapper: adds other wrappers, outside Monitor
    :param seed: of the action spaces
    :param monitor_dir: folder for Monitor's files
    :param monitor_kwargs: arguments of Monitor
    :return: functions that make the environments, each with a Monitor, as in SB3's ``make_vec_env``
    :raises ValueError: if the members don't fit each other or the number of environments
    """
    shared_out = members_of_envs(members, n_envs)
    check_members(members, make_env)
    if monitor_dir is not None:
        os.makedirs(monitor_dir, exist_ok=True)

    def make(rank: int, member: Member) -> gym.Env:
        env = make_env()
        if not member.is_plain:
            base, env = env, _make(member, env)
            base.close()
        if seed is not None:
            env.action_space.seed(seed + rank)
        file = None if monitor_dir is None else os.path.join(monitor_dir, str(rank))
        env = MemberEnv(Monitor(env, filename=file, **(monitor_kwargs or {})), member.name)
        return env if env_wrapper is None else env_wrapper(env)

    return [partial(make, rank, member) for rank, member in enumerate(shared_out)]


def mixed(
    make_vec_env: Callable[..., VecEnv], members: Sequence[Member], make_env: Callable[[], gym.Env], **settings: Any
) -> Callable[..., VecEnv]:
    """
    :param make_vec_env: a class of vectorised environments, or a function that makes one
    :param settings: as for :func:`member_fns`
    :return: makes them with these members. RL Zoo calls it with functions of its own, of which only the number counts
    """

    def make(env_fns: Sequence[Any], **kwargs: Any) -> VecEnv:
        return make_vec_env(member_fns(members, make_env, len(env_fns), **settings), **kwargs)

    return make


def _make(member: Member, base: gym.Env) -> gym.Env:
    try:
        return member.make_env(base)
    except ValueError as error:
        raise ValueError(f"members: {member.name!r}: {error}") from error
