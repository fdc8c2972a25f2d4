"""Scores on a grid of parameters: each cell has its own, and nothing else changes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sb3_ext.runs.play.grid import Axis, GridScores, evaluate_grid, parse_axis, plot_grids, pooled
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.randomization.known_envs import DomainRandomization, LunarLanderRandomization, randomization_for

SCRIPTS = Path(__file__).parents[3] / "scripts" / "results"
TWO, THREE = Axis("a", (1.0, 2.0)), Axis("b", (10.0, 20.0, 30.0))


class Product(gym.Env):
    """The reward of its only step is the product of its parameters."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.a = self.b = self.c = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.a * self.b * self.c, True, False, {}


class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def make_product(parameters=None):
    return Doubled(DomainRandomization(Monitor(Product()), parameters))


def make_drawn():
    return make_product({"c": {"uniform": [1, 2]}, "a": {"uniform": [5, 6]}})


def make_model(env):
    return PPO("MlpPolicy", env, n_steps=8, batch_size=8, seed=0, device="cpu")


KINDS = {
    "dummy": DummyVecEnv,
    "subproc": lambda env_fns: SubprocVecEnv(env_fns, start_method="fork"),
    "multicore": lambda env_fns: MulticoreVecEnv(env_fns, n_workers=2, start_method="fork"),
    "normalised": lambda env_fns: VecNormalize(DummyVecEnv(env_fns)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_cell_has_the_raw_score_of_its_parameters(kind, closing):
    env = closing(KINDS[kind]([make_product] * 3))
    scores = evaluate_grid(make_model(env), env, TWO, THREE, n_episodes=6)
    assert scores.rewards.shape == (2, 3, 6)
    assert scores.mean.tolist() == [[10, 20, 30], [20, 40, 60]]
    assert (scores.std == 0).all()


def test_what_is_not_on_the_grid_is_the_same_in_each_cell_and_drawn_again_afterwards(closing):
    env = closing(DummyVecEnv([make_drawn] * 2))
    scores = evaluate_grid(make_model(env), env, TWO, THREE, n_episodes=10)
    drawn = scores.rewards / scores.rewards[:1, :1]
    assert drawn == pytest.approx(np.broadcast_to([[[1], [2], [3]], [[2], [4], [6]]], drawn.shape))
    assert (scores.std > 0).all()
    env.reset()
    assert all(5 <= info["parameters"]["a"] <= 6 for info in env.reset_infos)


def test_other_parameters_can_be_fixed(closing):
    env = closing(DummyVecEnv([make_drawn]))
    told = []
    scores = evaluate_grid(
        make_model(env), env, TWO, THREE, 2, fixed={"c": 3}, on_cell=lambda cell, mean: told.append((cell, mean))
    )
    assert scores.mean[1, 2] == 180 and (scores.std == 0).all()
    assert told[-1] == ({"a": 2.0, "b": 30.0, "c": 3}, 180) and len(told) == 6


def test_the_cell_with_the_parameters_of_the_plain_environment_has_its_score(closing):
    def make():
        env = Monitor(gym.make("LunarLander-v3"))
        return LunarLanderRandomization(env, {"gravity": {"uniform": [-12, -4]}})

    plain, env = closing(make_vec_env("LunarLander-v3", 3)), closing(DummyVecEnv([make] * 3))
    model = make_model(plain)
    plain.seed(5)
    expected, _ = evaluate_policy(model, plain, 3, return_episode_rewards=True)
    gravity, wind = Axis("gravity", (-10.0, -5.0)), Axis("wind_power", (0.0, 15.0))
    scores = evaluate_grid(model, env, gravity, wind, n_episodes=3, seed=5)
    assert scores.rewards[0, 0].tolist() == expected
    assert len({tuple(cell) for cell in scores.rewards.reshape(4, 3)}) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((TWO, THREE, 0), ValueError, "at least 1"),
        ((TWO, TWO), ValueError, "used once, on the grid or fixed"),
        ((TWO, Axis("bb", (1.0,))), AttributeError, "did you mean 'b'"),
    ],
)
def test_a_wrong_grid_gets_a_clear_error(arguments, error, message, closing):
    env = closing(DummyVecEnv([make_product]))
    with pytest.raises(error, match=message):
        evaluate_grid(make_model(env), env, *arguments)


def test_environments_without_the_wrapper_get_a_clear_error(closing):
    env = closing(DummyVecEnv([lambda: Monitor(Product())]))
    with pytest.raises(ValueError, match="DomainRandomization"):
        evaluate_grid(make_model(env), env, TWO, THREE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gravity=-12..-4:5", Axis("gravity", (-12.0, -10.0, -8.0, -6.0, -4.0))),
        ("wind_power=0..20:2", Axis("wind_power", (0.0, 20.0))),
        ("a.b=1,2.5,1e1", Axis("a.b", (1.0, 2.5, 10.0))),
        ("mass=3", Axis("mass", (3.0,))),
    ],
)
def test_axes_are_read(text, expected):
    assert parse_axis(text) == expected


@pytest.mark.parametrize(
    "text", ["gravity", "=1..2:3", "gravity=", "gravity=1..2", "gravity=1..2:1", "gravity=1..b:3", "gravity=1,1"]
)
def test_what_is_not_an_axis_gets_a_clear_error(text):
    with pytest.raises(ValueError, match=r"gravity=-12\.\.-4:5|must be a number|must differ"):
        parse_axis(text)


def test_grids_of_several_agents_are_put_together():
    grids = [GridScores(TWO, THREE, np.full((2, 3, n), value)) for n, value in ((4, 10.0), (12, 30.0))]
    both = pooled(grids)
    assert both.rewards.shape == (2, 3, 16) and (both.mean == 25).all()
    with pytest.raises(ValueError, match="same parameters"):
        pooled([grids[0], GridScores(THREE, TWO, np.zeros((3, 2, 4)))])


def test_the_table_and_the_picture_have_all_cells(tmp_path):
    rewards = np.arange(24.0).reshape(2, 3, 4)
    grid = GridScores(TWO, THREE, rewards)
    assert grid.table().splitlines()[0] == "| a \\ b | 10 | 20 | 30 |"
    assert grid.table().splitlines()[3] == "| 2 | 13.5 ± 1.1 | 17.5 ± 1.1 | 21.5 ± 1.1 |"
    for number, names in enumerate((["one"], ["one", "two"], ["one", "two", "three"])):
        path = tmp_path / f"{number}.png"
        plot_grids({name: grid for name in names}, str(path), "title")
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_class_that_knows_the_parameters_is_found():
    assert randomization_for(Monitor(gym.make("LunarLander-v3"))) is LunarLanderRandomization
    assert randomization_for(Product()) is DomainRandomization


def test_the_script_plays_runs_and_leaves_out_how_they_were_randomised(tmp_path, monkeypatch, capsys):
    randomised = "sb3_ext.wrappers.CartPoleRandomization"
    wrappers = {"plain": None, "drawn": [{randomised: {"parameters": {"force_mag": 0.1}}}]}
    for name, env_wrapper in wrappers.items():
        run = tmp_path / name / "ppo" / "CartPole-v1_1"
        (run / "CartPole-v1").mkdir(parents=True)
        make_model("CartPole-v1").save(run / "CartPole-v1.zip")
        (run / "CartPole-v1" / "config.yml").write_text(yaml.dump({"env_wrapper": env_wrapper, "policy": "MlpPolicy"}))
    monkeypatch.syspath_prepend(SCRIPTS)
    runs = [f"plain={tmp_path}/plain", f"drawn={tmp_path}/drawn/ppo/CartPole-v1_1,{tmp_path}/drawn"]
    options = ["--env", "CartPole-v1", "--algo", "ppo", "--episodes", "3", "--plot", str(tmp_path / "grid.png")]
    grid = ["--grid", "length=0.3..1:2", "masscart=1,3", "--fixed", "friction=0.1"]
    monkeypatch.setattr(sys, "argv", ["grid.py", "--runs", *runs, *options, *grid])
    importlib.import_module("grid").main()
    tables = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| 0.3", "| 1 "))]
    assert len(tables) == 4 and tables[:2] == tables[2:]
    assert (tmp_path / "grid.png").is_file()
