"""EnvPool's versions against Gymnasium's. Without EnvPool (pip install 'sb3-ext[envpool]'), only the messages."""

from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext.common.usage_error import UsageError
from sb3_ext.vec_env.choose import EnvConfig, VecEnvChooser
from sb3_ext.vec_env.envpool import SAME_AS_GYMNASIUM, EnvPoolVecEnv

HAS_ENVPOOL = find_spec("envpool") is not None
needs_envpool = pytest.mark.skipif(not HAS_ENVPOOL, reason="EnvPool is not installed")


def config(env_id="Pendulum-v1", **changed):
    plain = EnvConfig(env_id, {}, None, None, None, None, {})
    return plain._replace(**changed)


def choose(requested, chosen):
    return VecEnvChooser(True, requested, 0).choose(chosen, 4, lambda: gym.make(chosen.env_id), None)


def angle(cosine, sine):
    return np.arctan2(sine, cosine)


STATES = {
    "Pendulum-v1": lambda o: np.array([angle(o[0], o[1]), o[2]]),
    "Acrobot-v1": lambda o: np.array([angle(o[0], o[1]), angle(o[2], o[3]), o[4], o[5]]),
}


@needs_envpool
@pytest.mark.parametrize("env_id", STATES)
def test_a_step_leads_where_gymnasiums_leads(env_id):
    env, single = EnvPoolVecEnv(env_id, 4), gym.make(env_id).unwrapped
    env.seed(1)
    before = env.reset()
    single.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(150):
        actions = np.array([env.action_space.sample() for _ in range(4)])
        after, rewards, dones, _ = env.step(actions)
        for index in np.flatnonzero(~dones):
            single.state = STATES[env_id](before[index].astype(float))
            expected, reward, *_ = single.step(actions[index])
            np.testing.assert_allclose(after[index], expected, atol=2e-4)
            assert rewards[index] == pytest.approx(reward, abs=2e-3)
        before = after


@needs_envpool
@pytest.mark.parametrize("env_id", sorted(name for name in SAME_AS_GYMNASIUM if name.startswith("Lunar")))
@pytest.mark.parametrize("policy", ["nothing", "up", "random"])
def test_the_lander_flies_as_gymnasiums(env_id, policy):
    """Its state can't be set: episodes of simple policies are compared."""

    def play(env):
        env.seed(3)
        env.reset()
        env.action_space.seed(3)
        is_discrete = isinstance(env.action_space, gym.spaces.Discrete)
        fixed = {"nothing": 0 if is_discrete else [0.0, 0.0], "up": 2 if is_discrete else [1.0, 0.0]}
        scores, lengths = [], []
        while len(scores) < 160:
            actions = [fixed.get(policy, env.action_space.sample()) for _ in range(env.num_envs)]
            _, _, dones, infos = env.step(np.array(actions))
            scores += [infos[index]["episode"]["r"] for index in np.flatnonzero(dones)]
            lengths += [infos[index]["episode"]["l"] for index in np.flatnonzero(dones)]
        return scores, lengths

    ours, theirs = play(EnvPoolVecEnv(env_id, 8)), play(make_vec_env(env_id, 8))
    for mine, expected in zip(ours, theirs, strict=True):
        assert mannwhitneyu(mine, expected).pvalue > 1e-4


@needs_envpool
def test_episodes_end_as_sb3_wants(tmp_path):
    env = EnvPoolVecEnv("Pendulum-v1", 3, max_episode_steps=20, monitor_dir=str(tmp_path))
    before = env.reset()
    for step in range(1, 61):
        after, rewards, dones, infos = env.step(np.zeros((3, 1), np.float32))
        assert rewards.dtype == np.float32 and after.dtype == np.float32
        assert dones.all() == dones.any() == (step % 20 == 0)
        if dones.any():
            assert all(info["TimeLimit.truncated"] and info["episode"]["l"] == 20 for info in infos)
            last = np.array([info["terminal_observation"] for info in infos])
            assert np.abs(last[:, 2] - before[:, 2]).max() < 1.0  # one step on
            assert np.abs(after[:, 2]).max() <= 1.0  # a new one
        before = after
    env.close()
    written = (tmp_path / "2.monitor.csv").read_text()
    assert written.count("\n") == 2 + 3 and '"env_id": "Pendulum-v1"' in written


@needs_envpool
def test_a_seed_gives_the_same_episodes_again():
    def start(env, seed):
        env.seed(seed)
        return env.reset()

    env = EnvPoolVecEnv("Acrobot-v1", 3)
    first = start(env, 1)
    assert not np.array_equal(first, start(env, 2))
    np.testing.assert_array_equal(first, start(env, 1))
    np.testing.assert_array_equal(first, start(EnvPoolVecEnv("Acrobot-v1", 3), 1))
    assert len(np.unique(first, axis=0)) == 3
    assert env.get_attr("spec")[0].id == "Acrobot-v1"
    assert env.observation_space == gym.make("Acrobot-v1").observation_space


@needs_envpool
def test_it_is_chosen_where_it_is_asked_for():
    env = choose("envpool", config("MountainCar-v0")).make([None] * 3)
    assert isinstance(env, EnvPoolVecEnv) and env.num_envs == 3


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (config("Taxi-v4"), "it does not have this id"),
        (config(env_kwargs={"g": 5.0}), "env_kwargs has g"),
        (config(env_wrapper="gymnasium.wrappers.ClipAction"), "env_wrapper needs single environments"),
        (config(monitor_kwargs={"info_keywords": ("won",)}), "monitor_kwargs has info_keywords"),
    ],
)
def test_where_it_is_not_possible_the_reason_is_said(chosen, reason):
    if not HAS_ENVPOOL:
        reason = "it is not installed"
    with pytest.raises(UsageError, match=f"vec_env: envpool is not possible with {chosen.env_id}: {reason}"):
        choose("envpool", chosen)
    assert choose("auto", chosen).name != "EnvPool"


def test_an_id_without_a_vectorised_version_says_so():
    with pytest.raises(
        UsageError, match="make_vec is not possible with Pendulum-v1: it is registered without a vector"
    ):
        choose("make_vec", config())


def test_a_vectorised_version_that_was_registered_is_used():
    def make_some(num_envs, **kwargs):
        mode = gym.vector.AutoresetMode.SAME_STEP
        single = gym.make_vec("Pendulum-v1", num_envs, "sync", vector_kwargs={"autoreset_mode": mode}, **kwargs)
        return single

    gym.register("Vectorised-v0", "gymnasium.envs.classic_control:PendulumEnv", vector_entry_point=make_some)
    chosen = choose("make_vec", config("Vectorised-v0", env_kwargs={"g": 5.0}))
    env = chosen.make([None] * 3)
    assert env.reset().shape == (3, 3)
    assert chosen.name == "its own vectorised version"
