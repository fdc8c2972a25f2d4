"""Episodes for the page: every kind of space and algorithm, and the same numbers as a checkpoint's table."""

import base64
from copy import deepcopy

import cv2
import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from gymnasium import spaces
from inspected_runs import ON_POLICY, train
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.common.usage_error import UsageError
from sb3_ext.inspect.episode import Wanted, episode_messages, play_for_page
from sb3_ext.runs.agents.checkpoint import Checkpoint
from sb3_ext.runs.play.episode_table import EpisodeTable
from sb3_ext.runs.record import read_record
from sb3_ext.zoo.load_run import LoadedRun

TINY = {"policy_kwargs": {"net_arch": [4]}, "device": "cpu", "seed": 0}
NAMED = {"run": "run", "algo": "algo", "env": "Env-v0", "model": "best"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("inspect") / "logs"
    recorded = "report=False, checkpoints=dict(table=True, video=False)"
    train(logs, "CartPole-v1", params=[*ON_POLICY, "normalize:True"], ext=recorded)
    train(logs, "FrozenLake-v1", "dqn", ["learning_starts:10", "train_freq:16"])
    train(logs, "Bandit-v0")
    return logs


def messages_of(model, env, **wanted):
    return list(episode_messages(LoadedRun(model, env, True), Wanted(**wanted), NAMED))


def pixels_of(url):
    return cv2.imdecode(np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8), cv2.IMREAD_UNCHANGED)


@pytest.mark.parametrize(
    ("algorithm", "observation", "action"),
    [
        (PPOExt, "Box", "Discrete"),
        (PPO, "Dict", "MultiDiscrete"),
        (A2C, "Discrete", "MultiBinary"),
        (REINFORCE, "Box", "Box"),
        (DQN, "Box", "Discrete"),
        (SAC, "Box", "Box"),
        (PPO, "image", "Discrete"),
    ],
)
def test_any_space_can_be_inspected(algorithm, observation, action):
    env = DummyVecEnv([lambda: RandomEnv(OBSERVATION_SPACES[observation], ACTION_SPACES[action])])
    start, *_, end = messages_of(algorithm(POLICIES[observation], env, **deepcopy(TINY)), env)
    assert len(end["end"]["step"]) == 7 and end["is_over"]
    assert end["score"] == pytest.approx(sum(end["end"]["reward"]))
    assert "render" in start["no_pictures"] and end["last_picture"] is None
    assert start["start"]["is_squashed"] == (algorithm is SAC)


@pytest.mark.parametrize(("names", "columns"), [(["x"] * 23, 23), (["x"] * 41, 4), ([], 4)])
def test_named_observations_are_listed_up_to_40(names, columns):
    env = RandomEnv(spaces.Box(-1, 1, (len(names) or 23,)), ACTION_SPACES["Discrete"])
    if names:
        env.feature_names = names
    vec_env = DummyVecEnv([lambda: env])
    start, *_, end = messages_of(PPO("MlpPolicy", vec_env, **deepcopy(TINY)), vec_env, max_steps=1)
    assert len([name for name in end["end"] if name.startswith("obs")]) == columns
    assert list(start["start"]["observations"].values()) == names


def test_the_table_is_the_one_of_the_checkpoint(logs):
    folder = logs / "ppo_ext" / "CartPole-v1_1"
    *_, end = play_for_page(read_record(folder), Wanted("256"))
    written = EpisodeTable.from_csv(Checkpoint(folder, "rl_model_256_steps").table)
    assert list(end["end"]) == list(written.columns)
    assert end["end"].pop("action_label") == written["action_label"].tolist()
    for name, column in written.columns.items():
        if name in end["end"]:
            np.testing.assert_allclose(end["end"][name], column, rtol=1e-5, atol=1e-6, err_msg=name)


def test_each_step_has_a_picture_and_so_has_the_end(logs):
    start, *steps, end = play_for_page(read_record(logs / "ppo_ext" / "CartPole-v1_1"), Wanted())
    pictures = [picture for message in steps for picture in message["pictures"]]
    assert len(pictures) == len(end["end"]["step"]) == sum(message["steps"] for message in steps)
    assert pixels_of(pictures[0]).shape == (400, 600, 3)
    assert not np.array_equal(pixels_of(pictures[-1]), pixels_of(end["last_picture"]))
    assert start["start"]["actions"] == ["left", "right"]
    assert start["start"]["observations"]["obs_2"] == "angle"
    assert start["start"]["model"] == "best"


def test_a_seed_gives_the_same_episode_and_another_one_another(logs):
    record = read_record(logs / "ppo_ext" / "CartPole-v1_1")
    ends = [list(play_for_page(record, Wanted(seed=seed, deterministic=False)))[-1]["end"] for seed in (3, 3, 4)]
    assert ends[0] == ends[1] != ends[2]


def test_a_long_episode_is_cut_off(logs):
    *_, end = play_for_page(read_record(logs / "ppo_ext" / "CartPole-v1_1"), Wanted(max_steps=5))
    assert len(end["end"]["step"]) == 5 and not end["is_over"] and end["last_picture"] is None


def test_toy_text_has_a_map_of_values_and_policy(logs):
    start, *_ = play_for_page(read_record(logs / "dqn" / "FrozenLake-v1_1"), Wanted())
    found = start["map"]
    assert (found["rows"], found["columns"], found["groups"]) == (4, 4, 1)
    assert len(found["values"]) == 16 and np.allclose(np.sum(found["probabilities"], axis=1), 1)
    assert found["letters"][0][0] == "S" and found["letters"][3][3] == "G"
    assert [found["letters"][state // 4][state % 4] for state in found["terminal"]] == ["H", "H", "H", "H", "G"]


def test_a_bandit_can_be_inspected(logs):
    *_, end = play_for_page(read_record(logs / "ppo_ext" / "Bandit-v0_1"), Wanted())
    assert end["is_over"]


class DotEnv(gym.Env):
    """A picture with a white square; only where it is matters."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._picture(), {}

    def step(self, action):
        self._time += 1
        return self._picture(), 0.0, self._time == 4, False, {}

    def _picture(self):
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[4 * self._time : 4 * self._time + 4] = 255
        return picture


def test_stacked_frames_are_shown_side_by_side_and_the_network_s_gaze_with_them():
    env = VecFrameStack(DummyVecEnv([DotEnv]), 3)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, device="cpu", seed=0)
    _, steps, _ = messages_of(model, env, saliency=True)
    stack, gaze = (pixels_of(steps["seen"][2][name]) for name in ("observation", "saliency"))
    assert stack.shape == (36, 108)
    assert [int(frame[:, 0].argmax()) for frame in np.split(stack, 3, axis=1)] == [0, 4, 8]
    assert gaze.shape == (36, 36) and gaze.max() == 255 and gaze.min() < 100


def test_an_environment_that_is_not_installed_is_named(logs, tmp_path):
    record = read_record(logs / "ppo_ext" / "CartPole-v1_1")
    missing = {**record.args, "env": "Missing-v0"}
    with pytest.raises(UsageError, match=r"Missing-v0 can't be played here"):
        next(play_for_page(type(record)(**{**vars(record), "args": missing}), Wanted()))


def test_a_run_without_models_is_named(tmp_path):
    from report_folders import zoo_run

    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1")
    with pytest.raises(UsageError, match="no model"):
        next(play_for_page(read_record(folder), Wanted()))
