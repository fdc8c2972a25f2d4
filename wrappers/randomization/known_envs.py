"""Domain randomisation of Gymnasium's environments: parameters by name, within sensible ranges.

Values derived from a parameter change with it. For other environments, ``DomainRandomization`` takes any attribute. Put
these wrappers first in ``env_wrapper``, next to the environment.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym
import numpy as np

from sb3_ext.wrappers.randomization.distributions import Range
from sb3_ext.wrappers.randomization.domain import DomainRandomization, NamedRandomization

__all__ = [
    "CartPoleRandomization",
    "DomainRandomization",
    "LunarLanderRandomization",
    "MountainCarRandomization",
    "PendulumRandomization",
    "randomization_for",
]


class LunarLanderRandomization(NamedRandomization):
    """
    For LunarLander-v3 and LunarLanderContinuous-v3. Defaults are in brackets:

    - ``gravity`` (-10), from -12 to 0
    - ``wind_power`` (0; with ``enable_wind`` 15) and ``turbulence_power`` (0; with ``enable_wind`` 1.5). The wind is
      switched on when one of them is above 0. Gymnasium recommends at most 20 and 2.
    - ``main_engine_power`` (13) and ``side_engine_power`` (0.6)
    - ``initial_x`` (0): where the lander starts, from -0.9 to 0.9; the pad is at 0, the borders are at -1 and 1
    - ``initial_force`` (1000): the largest random push at the start, in each direction
    """

    made_for = ("gymnasium.envs.box2d.lunar_lander:LunarLander",)
    ranges: ClassVar[Mapping[str, Range]] = {
        "gravity": Range(-12.0, 0.0),
        "wind_power": Range(0.0),
        "turbulence_power": Range(0.0),
        "main_engine_power": Range(0.0),
        "side_engine_power": Range(0.0),
        "initial_x": Range(-0.9, 0.9),
        "initial_force": Range(0.0),
    }
    #: Constants of Gymnasium's module, which all landers of a process share
    _CONSTANTS: ClassVar[Mapping[str, str]] = {
        "main_engine_power": "MAIN_ENGINE_POWER",
        "side_engine_power": "SIDE_ENGINE_POWER",
        "initial_force": "INITIAL_RANDOM",
    }
    _WIND = ("wind_power", "turbulence_power")
    _constants: tuple[tuple[str, float], ...] = ()

    def _find(self, name: str) -> Range:
        allowed = super()._find(name)
        if name in self._WIND:  # each of them switches the wind on
            for other in self._WIND:
                super()._find(other)
        if name == "initial_x" and self.env.observation_space != self.unwrapped.observation_space:
            raise ValueError("initial_x changes the lander's observation: put this wrapper first in env_wrapper.")
        return allowed

    def _read(self, name: str) -> float | None:
        from gymnasium.envs.box2d import lunar_lander

        if name in self._CONSTANTS:
            return getattr(lunar_lander, self._CONSTANTS[name])
        if name == "initial_x" or (name in self._WIND and not self.unwrapped.enable_wind):  # type: ignore[attr-defined]
            return 0.0
        return super()._read(name)

    def _write(self, values: Mapping[str, Any]) -> None:
        super()._write({name: values[name] for name in ("gravity", *self._WIND) if name in values})
        if "wind_power" in values:
            self.unwrapped.enable_wind = any(values[name] > 0 for name in self._WIND)  # type: ignore[attr-defined]
        self._constants = tuple((self._CONSTANTS[name], values[name]) for name in self._CONSTANTS if name in values)

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        observation, info = self._with_constants(self.env.reset, seed=seed, options=options)
        shift = self._values.get("initial_x", 0.0)
        return (self._shifted(observation, shift) if shift else observation), info

    def _step_env(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        return self._with_constants(self.env.step, action)

    def _with_constants(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._constants:
            return function(*args, **kwargs)
        from gymnasium.envs.box2d import lunar_lander

        before = [(name, getattr(lunar_lander, name)) for name, _ in self._constants]
        for name, value in self._constants:
            setattr(lunar_lander, name, value)
        try:
            return function(*args, **kwargs)
        finally:
            for name, value in before:
                setattr(lunar_lander, name, value)

    def _shifted(self, observation: np.ndarray, shift: float) -> np.ndarray:
        """Move the lander and its legs sideways, and the distance to the pad that the next reward starts from."""
        from gymnasium.envs.box2d.lunar_lander import SCALE, VIEWPORT_W

        env: Any = self.unwrapped
        for body in env.drawlist:
            body.position = (body.position.x + shift * VIEWPORT_W / SCALE / 2, body.position.y)
        x, y = float(observation[0]), float(observation[1])
        env.prev_shaping -= 100 * (np.hypot(x + shift, y) - np.hypot(x, y))
        shifted = observation.copy()
        shifted[0] += shift
        return shifted


class CartPoleRandomization(NamedRandomization):
    """
    For CartPole. Defaults are in brackets:

    - ``gravity`` (9.8), ``masscart`` (1), ``masspole`` (0.1), ``length`` (0.5, half of the pole's), ``force_mag`` (10)
    - ``tau`` (0.02), the seconds of a step
    - ``friction`` (0), a force on the cart against its velocity, in N for each m/s
    """

    made_for = ("gymnasium.envs.classic_control.cartpole:CartPoleEnv",)
    ranges: ClassVar[Mapping[str, Range]] = {
        "gravity": Range(0.0),
        "masscart": Range(0.0, above=True),
        "masspole": Range(0.0, above=True),
        "length": Range(0.0, above=True),
        "force_mag": Range(0.0, above=True),
        "tau": Range(0.0, above=True),
        "friction": Range(0.0),
    }

    def _read(self, name: str) -> float | None:
        return 0.0 if name == "friction" else super()._read(name)

    def _write(self, values: Mapping[str, Any]) -> None:
        super()._write({name: value for name, value in values.items() if name != "friction"})
        env: Any = self.unwrapped
        env.total_mass = env.masspole + env.masscart
        env.polemass_length = env.masspole * env.length

    def _step_env(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        friction = self._values.get("friction", 0.0)
        if not friction:
            return self.env.step(action)
        # The environment pushes with ±force_mag; friction adds to it
        env: Any = self.unwrapped
        push = env.force_mag
        env.force_mag = push - (1 if action == 1 else -1) * friction * env.state[1]
        try:
            return self.env.step(action)
        finally:
            env.force_mag = push


class PendulumRandomization(NamedRandomization):
    """
    For Pendulum. Defaults are in brackets:

    - ``g`` (10), gravity; ``m`` (1), the mass; ``l`` (1), the length
    - ``max_torque`` (2) and ``max_speed`` (8), which can only be lowered, because of the spaces
    - ``dt`` (0.05), the seconds of a step
    """

    made_for = ("gymnasium.envs.classic_control.pendulum:PendulumEnv",)
    ranges: ClassVar[Mapping[str, Range]] = {
        "g": Range(0.0),
        "m": Range(0.0, above=True),
        "l": Range(0.0, above=True),
        "max_torque": Range(0.0, 2.0, above=True),
        "max_speed": Range(0.0, 8.0, above=True),
        "dt": Range(0.0, above=True),
    }


class MountainCarRandomization(NamedRandomization):
    """
    For MountainCar and MountainCarContinuous. Defaults are in brackets:

    - ``force`` (0.001) and ``gravity`` (0.0025), of MountainCar
    - ``power`` (0.0015), of MountainCarContinuous
    - ``goal_position`` (0.5; continuous 0.45), from -0.4 to 0.6, and ``goal_velocity`` (0), at most 0.07
    - ``max_speed`` (0.07), which can only be lowered
    """

    made_for = (
        "gymnasium.envs.classic_control.mountain_car:MountainCarEnv",
        "gymnasium.envs.classic_control.continuous_mountain_car:Continuous_MountainCarEnv",
    )
    ranges: ClassVar[Mapping[str, Range]] = {
        "force": Range(0.0, above=True),
        "gravity": Range(0.0),
        "power": Range(0.0, above=True),
        "goal_position": Range(-0.4, 0.6),
        "goal_velocity": Range(0.0, 0.07),
        "max_speed": Range(0.0, 0.07, above=True),
    }


def randomization_for(env: gym.Env) -> type[DomainRandomization]:
    """The class that knows the environment's parameters by name, or the general one."""
    named = (LunarLanderRandomization, CartPoleRandomization, PendulumRandomization, MountainCarRandomization)
    return next((cls for cls in named if cls.fits(env)), DomainRandomization)
