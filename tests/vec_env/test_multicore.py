"""MulticoreVecEnv gives what DummyVecEnv gives."""

import functools
from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from talkative_env import N_ENVS, SPACES, make_fns, random_actions, worker_pids

from sb3_ext.vec_env.multicore import MulticoreVecEnv


def without_times(infos):
    return [{**info, "episode": {**info["episode"], "t": 0}} if "episode" in info else info for info in infos]


def assert_same_steps(ours, reference, actions):
    """Returns the number of episodes that ended."""
    n_episodes = 0
    for action in actions:
        results, expected = ours.step(action), reference.step(action)
        np.testing.assert_equal(results[:3], expected[:3])
        np.testing.assert_equal(without_times(results[3]), without_times(expected[3]))
        np.testing.assert_equal(ours.reset_infos, reference.reset_infos)
        assert [array.dtype for array in results[1:3]] == [array.dtype for array in expected[1:3]]
        n_episodes += results[2].sum()
    return n_episodes


@pytest.mark.parametrize("action", ["Discrete", "Box", "MultiDiscrete"])
@pytest.mark.parametrize("obs", SPACES)
def test_trajectories_and_infos_equal_those_of_dummy_vec_env(obs, action, closing):
    ours = closing(MulticoreVecEnv(make_fns(obs, action), n_workers=3, start_method="fork"))
    reference = DummyVecEnv(make_fns(obs, action))
    for vec_env in (ours, reference):
        vec_env.seed(5)
    np.testing.assert_equal(ours.reset(), reference.reset())
    assert assert_same_steps(ours, reference, random_actions(ours.action_space, 120)) > 100


@pytest.mark.parametrize("start_method", ["forkserver", "spawn", "fork"])
def test_real_environments_give_the_same_with_each_start_method(start_method, closing):
    make = functools.partial(gym.make, "LunarLander-v3", continuous=True)
    kwargs = {"n_workers": 2, "start_method": start_method}
    ours = closing(make_vec_env(make, 4, seed=3, vec_env_cls=MulticoreVecEnv, vec_env_kwargs=kwargs))
    reference = make_vec_env(make, 4, seed=3)
    np.testing.assert_equal(ours.reset(), reference.reset())
    assert assert_same_steps(ours, reference, random_actions(ours.action_space, 300, 4)) > 4


def test_ppo_learns_the_same_parameters(closing):
    def learn(vec_env):
        return PPO("MlpPolicy", vec_env, n_steps=32, batch_size=32, n_epochs=2, seed=1, device="cpu").learn(500)

    ours = learn(closing(MulticoreVecEnv(make_fns(n_envs=4), n_workers=2, start_method="fork")))
    reference = learn(DummyVecEnv(make_fns(n_envs=4)))
    pairs = zip(ours.policy.parameters(), reference.policy.parameters(), strict=True)
    assert all((mine == theirs).all() for mine, theirs in pairs)
    assert [ep["r"] for ep in ours.ep_info_buffer] == [ep["r"] for ep in reference.ep_info_buffer]


@pytest.mark.parametrize("n_envs, n_workers, n_processes", [(1, None, 0), (3, 1, 0), (3, 99, 2), (5, 2, 1), (5, 3, 2)])
def test_any_number_of_workers_gives_the_same(n_envs, n_workers, n_processes, closing):
    before = worker_pids()
    ours = closing(MulticoreVecEnv(make_fns(n_envs=n_envs), n_workers=n_workers, start_method="fork"))
    reference = DummyVecEnv(make_fns(n_envs=n_envs))
    assert len(worker_pids() - before) == n_processes
    for vec_env in (ours, reference):
        vec_env.seed(2)
        vec_env.reset()
    assert_same_steps(ours, reference, random_actions(ours.action_space, 20, n_envs))


@pytest.mark.parametrize("n_workers", [0, -1, 1.5, "2", True])
def test_a_wrong_number_of_workers_gets_an_error(n_workers):
    with pytest.raises(ValueError, match=f"n_workers={n_workers!r} must be a whole number"):
        MulticoreVecEnv(make_fns(), n_workers=n_workers)


def test_without_environments_there_is_an_error():
    with pytest.raises(ValueError, match="env_fns is empty"):
        MulticoreVecEnv([])


def test_one_environment_for_two_functions_is_an_error():
    env = make_fns()[0]()
    with pytest.raises(ValueError, match="returned the same environment"):
        MulticoreVecEnv([lambda: env] * 4, n_workers=2)


@pytest.mark.parametrize("convert", [list, lambda actions: actions.astype(np.int32)], ids=["list", "int32"])
def test_actions_of_another_type_arrive_as_they_are(convert, closing):
    ours = closing(MulticoreVecEnv(make_fns(), n_workers=2, start_method="fork"))
    reference = DummyVecEnv(make_fns())
    for vec_env in (ours, reference):
        vec_env.seed(5)
        vec_env.reset()
    assert_same_steps(ours, reference, [convert(actions) for actions in random_actions(ours.action_space, 10)])
    (types,) = {tuple(map(type, vec_env.get_attr("last_action"))) for vec_env in (ours, reference)}
    assert len(set(types)) == 1


def test_what_a_step_returned_does_not_change_later(closing):
    vec_env = closing(MulticoreVecEnv(make_fns("Dict"), n_workers=2, start_method="fork"))
    vec_env.seed(0)
    vec_env.reset()
    kept = [vec_env.step(actions) for actions in random_actions(vec_env.action_space, 8)]
    then = deepcopy(kept)
    for actions in random_actions(vec_env.action_space, 8):
        vec_env.step(actions)
    np.testing.assert_equal(kept, then)


def test_seeds_and_options_reach_their_environment_once(closing):
    vec_env = closing(MulticoreVecEnv(make_fns(), n_workers=3, start_method="fork"))
    vec_env.seed(10)
    options = [{"level": index} for index in range(N_ENVS)]
    vec_env.set_options(options)
    vec_env.reset()
    assert vec_env.reset_infos == [{"seed": 10 + i, "options": options[i]} for i in range(N_ENVS)]
    vec_env.reset()
    assert vec_env.reset_infos == [{}] * N_ENVS


def test_calls_reach_the_environments_of_their_indices_in_order(closing):
    vec_env = closing(MulticoreVecEnv(make_fns(), n_workers=3, start_method="fork"))
    for index in range(N_ENVS):
        vec_env.env_method("set_wrapper_attr", "colour", index, indices=index)
    assert vec_env.get_attr("colour") == list(range(N_ENVS))
    assert vec_env.get_attr("colour", [6, 0, -1, 3, 0]) == [6, 0, 6, 3, 0]
    assert vec_env.env_method("add", 10, to=100, indices=np.array([5, 1])) == [115, 111]
    vec_env.set_attr("colour", 50, indices=[2, 4])
    assert vec_env.get_attr("colour", [2, 3, 4]) == [50, 3, 50]
    with pytest.raises(IndexError):
        vec_env.get_attr("colour", [N_ENVS])
    assert vec_env.env_is_wrapped(Monitor, [0, 6]) == [True, True]
    assert vec_env.env_is_wrapped(TimeLimit) == [False] * N_ENVS
    assert vec_env.has_attr("colour") and not vec_env.has_attr("flavour")
    with pytest.raises(AttributeError, match="flavour"):
        vec_env.get_attr("flavour", 6)


def test_functions_can_be_sent_both_ways(closing):
    vec_env = closing(MulticoreVecEnv(make_fns(n_envs=3), n_workers=2, start_method="fork"))
    vec_env.set_attr("paint", lambda colour: f"dark {colour}")
    assert [paint("red") for paint in vec_env.get_attr("paint")] == ["dark red"] * 3


def test_images_come_in_the_order_of_the_environments(closing):
    vec_env = closing(MulticoreVecEnv(make_fns(n_envs=4), n_workers=2, start_method="fork"))
    for index in range(4):
        vec_env.env_method("set_wrapper_attr", "colour", index, indices=index)
    assert [int(image[0, 0, 0]) for image in vec_env.get_images()] == [0, 1, 2, 3]
    assert vec_env.render_mode == "rgb_array" and vec_env.render().shape == (8, 10, 3)


def test_numpys_global_random_state_is_left_alone(closing):
    np.random.seed(3)
    state = np.random.get_state()[1].copy()
    vec_env = closing(MulticoreVecEnv(make_fns(), n_workers=2, start_method="fork"))
    vec_env.seed(1)
    vec_env.reset()
    for actions in random_actions(vec_env.action_space, 10):
        vec_env.step(actions)
    assert (np.random.get_state()[1] == state).all()
