from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext import PPOExt
from sb3_ext.vec_env.vector_env import VectorVecEnv

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


class Talkative(gym.Env):
    """Says something now and then, in dictionaries too."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def _info(self):
        every_third = {"third": self._step} if self._step % 3 == 0 else {}
        return {"step": self._step, "nested": {"half": self._step / 2}, **every_third}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), self._info()

    def step(self, action):
        self._step += 1
        ends = self.np_random.random() < 0.1
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 0.1 * self._step, bool(ends), False, self._info()


gym.register("Talkative-v0", Talkative, max_episode_steps=12)


def make(env_id, mode, n_envs=3, monitor_dir=None, **kwargs):
    env = gym.make_vec(env_id, n_envs, "sync", vector_kwargs={"autoreset_mode": mode}, **kwargs)
    return VectorVecEnv(env, monitor_dir=monitor_dir)


def without_clock(info):
    info = {key: value for key, value in info.items() if key != "TimeLimit.truncated" or "episode" in info}
    return {**info, "episode": {key: info["episode"][key] for key in "rl"}} if "episode" in info else info


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", ["Acrobot-v1", "Talkative-v0", "Pendulum-v1"])
def test_it_equals_a_dummy_vec_env(env_id, mode, tmp_path):
    kwargs = {"max_episode_steps": 30} if env_id != "Talkative-v0" else {}
    (tmp_path / "ours").mkdir()
    ours = make(env_id, mode, monitor_dir=str(tmp_path / "ours"), **kwargs)
    stock = make_vec_env(env_id, 3, env_kwargs=kwargs, monitor_dir=str(tmp_path / "stock"))
    for env in (ours, stock):
        env.seed(5)
    np.testing.assert_array_equal(ours.reset(), stock.reset())
    ours.action_space.seed(0)
    for step in range(100):
        actions = np.array([ours.action_space.sample() for _ in range(3)])
        found, expected = ours.step(actions), stock.step(actions)
        for mine, theirs in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
        np.testing.assert_equal([*map(without_clock, found[3])], [*map(without_clock, expected[3])], f"step {step}")
        np.testing.assert_equal(ours.reset_infos, stock.reset_infos)
    for env in (ours, stock):
        env.close()
    mine, theirs = (load_results(str(tmp_path / folder)) for folder in ("ours", "stock"))
    assert len(mine) > 6
    assert sorted(zip(mine["r"], mine["l"], strict=True)) == sorted(zip(theirs["r"], theirs["l"], strict=True))


def test_observations_stay_what_they_were():
    env = make("Acrobot-v1", MODES[1], max_episode_steps=5)
    kept = [env.reset()]
    copies = [kept[0].copy()]
    for _ in range(20):
        kept.append(env.step(np.zeros(3, dtype=int))[0])
        copies.append(kept[-1].copy())
    np.testing.assert_array_equal(kept, copies)


def test_it_trains_with_normalisation():
    env = VecNormalize(make("Pendulum-v1", MODES[0]))
    model = PPOExt("MlpPolicy", env, n_steps=64, batch_size=64, seed=0).learn(400)
    assert model.fast_policy is not None
    assert len(model.ep_info_buffer) == 0 or model.ep_info_buffer[0]["l"] == 200
    assert env.get_attr("render_mode") == [None] * 3


def test_one_that_resets_in_the_next_step_is_refused():
    with pytest.raises(
        ValueError, match=r"in the step after the end of its episode.*autoreset_mode=AutoresetMode.SAME"
    ):
        make("Acrobot-v1", AutoresetMode.NEXT_STEP)


def test_other_observations_are_refused():
    env = gym.make_vec("Blackjack-v1", 2, "sync", vector_kwargs={"autoreset_mode": MODES[0]})
    with pytest.raises(ValueError, match="must be arrays, and these are a Tuple"):
        VectorVecEnv(env)


def test_single_environments_can_not_be_reached():
    env = make("Acrobot-v1", MODES[0])
    with pytest.raises(AttributeError, match="'gravity' can't be set"):
        env.set_attr("gravity", 1.0)
    with pytest.raises(AttributeError, match="'seed_me' can't be called"):
        env.env_method("seed_me")
    env.set_options([{"low": 0.0}, {}, {}])
    with pytest.raises(ValueError, match="with the same options"):
        env.reset()
