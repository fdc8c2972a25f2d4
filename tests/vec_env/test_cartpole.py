"""CartPole in NumPy equals the environment it stands for, and keeps SB3's contract."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.wrappers import RecordVideo
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor, load_results

from sb3_ext.vec_env.cartpole import CartPoleVecEnv

N_ENVS = 8


def make(seed=0, n_envs=N_ENVS, **kwargs):
    vec_env = CartPoleVecEnv(n_envs, **kwargs)
    vec_env.seed(seed)
    vec_env.reset()
    return vec_env


def balance(states):
    """Actions that keep the pole up for a while, one for each row of states."""
    return (states[:, 2] + 0.5 * states[:, 3] > 0).astype(np.int64)


def random_actions(n_steps, seed=0, n_envs=N_ENVS):
    return np.random.default_rng(seed).integers(0, 2, (n_steps, n_envs))


@pytest.mark.parametrize("sutton_barto_reward", [False, True])
@pytest.mark.parametrize("integrator", ["euler", "semi-implicit euler"])
def test_every_step_equals_that_of_the_scalar_environment(sutton_barto_reward, integrator):
    vec_env = make(sutton_barto_reward=sutton_barto_reward)
    vec_env.set_attr("kinematics_integrator", integrator)
    scalar = gym.make("CartPole-v1", sutton_barto_reward=sutton_barto_reward)
    scalar.reset()
    scalar.unwrapped.kinematics_integrator = integrator
    n_falls = 0
    for actions in random_actions(200):
        states = vec_env.get_attr("state")
        observations, rewards, dones, infos = vec_env.step(actions)
        for index in range(N_ENVS):
            scalar.reset()
            scalar.unwrapped.state = states[index]
            obs, reward, terminated, _, _ = scalar.step(actions[index])
            ours = infos[index].get("terminal_observation", observations[index])
            np.testing.assert_allclose(ours, obs, rtol=1e-6, atol=1e-7)
            assert (rewards[index], dones[index]) == (reward, terminated)
            n_falls += terminated
    assert n_falls > 50
    assert observations.dtype == rewards.dtype == np.float32 and dones.dtype == np.bool_
    assert observations.flags.c_contiguous


@pytest.mark.parametrize("sutton_barto_reward", [False, True])
def test_whole_episodes_equal_those_of_the_scalar_environment(sutton_barto_reward):
    vec_env = make(seed=3, sutton_barto_reward=sutton_barto_reward)
    scalars = [Monitor(gym.make("CartPole-v1", sutton_barto_reward=sutton_barto_reward)) for _ in range(N_ENVS)]
    for scalar, state in zip(scalars, vec_env.get_attr("state"), strict=True):
        scalar.reset()
        scalar.unwrapped.state = state
    observations = np.stack([scalar.unwrapped.state for scalar in scalars])
    lengths, truncations = set(), set()
    for step in range(1200):
        # Half of them fall now and then, half reach the time limit.
        noise = np.random.default_rng(step).random(N_ENVS) < np.linspace(-0.3, 0.4, N_ENVS)
        actions = np.where(noise, 1, balance(observations))
        observations, rewards, dones, infos = vec_env.step(actions)
        for index, scalar in enumerate(scalars):
            obs, reward, terminated, truncated, info = scalar.step(actions[index])
            assert (rewards[index], dones[index]) == (reward, terminated or truncated)
            # A pole is unstable: a last bit that differs on some processor would grow into another episode.
            if not dones[index]:
                assert infos[index] == {}
                scalar.unwrapped.state = vec_env.get_attr("state", index)[0]
                continue
            np.testing.assert_allclose(infos[index]["terminal_observation"], obs, rtol=1e-6, atol=1e-7)
            assert infos[index]["TimeLimit.truncated"] == (truncated and not terminated)
            assert {key: infos[index]["episode"][key] for key in "rl"} == {key: info["episode"][key] for key in "rl"}
            lengths.add(info["episode"]["l"])
            truncations.add(truncated)
            scalar.reset()
            scalar.unwrapped.state = vec_env.get_attr("state", index)[0]
    assert max(lengths) == 500 and len(lengths) > 5 and truncations == {True, False}


def test_steps_equal_those_of_gymnasiums_own_vectorised_one():
    vec_env = make(seed=4)
    reference = CartPoleVectorEnv(N_ENVS)
    reference.reset(seed=4)
    np.testing.assert_array_equal(vec_env.get_attr("state"), reference.state.T)
    for actions in random_actions(7):
        np.testing.assert_array_equal(vec_env.step(actions)[0], reference.step(actions)[0])


def test_a_new_episode_begins_in_the_step_that_ends_the_old_one():
    vec_env = make(max_episode_steps=5)
    for step in range(1, 21):
        observations, _, dones, infos = vec_env.step(np.zeros(N_ENVS, dtype=np.int64))
        assert dones.all() == (step % 5 == 0)
        if dones.all():
            assert (np.abs(observations) <= 0.05).all()
            assert all(info["TimeLimit.truncated"] and info["episode"]["l"] == 5 for info in infos)
            assert all(np.abs(info["terminal_observation"]).max() > 0.5 for info in infos)


def test_a_fall_in_the_last_step_is_a_termination_and_no_truncation():
    vec_env = make(n_envs=2, max_episode_steps=3)
    for step in range(1, 4):
        if step == 3:
            vec_env.set_attr("state", [2.39, 5.0, 0.0, 0.0], indices=0)
        _, _, dones, infos = vec_env.step(np.array([1, 1]))
    assert dones.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True]


def test_the_same_seed_gives_the_same_episodes_and_copies_differ():
    def play(seed):
        vec_env = make(seed)
        start = np.array(vec_env.get_attr("state"))
        return start, np.stack([vec_env.step(actions)[0] for actions in random_actions(100)])

    start, steps = play(1)
    again, other = play(1), play(2)
    assert (start == again[0]).all() and (steps == again[1]).all()
    assert not (start == other[0]).any()
    assert len(np.unique(start)) == start.size


def test_a_second_reset_goes_on_with_the_generator():
    vec_env = CartPoleVecEnv(N_ENVS)
    vec_env.seed(0)
    first, second = vec_env.reset(), vec_env.reset()
    assert not (first == second).any()
    vec_env.seed(0)
    assert (vec_env.reset() == first).all()


def test_options_hold_for_one_reset():
    vec_env = make(max_episode_steps=1)
    vec_env.set_options({"low": 0.08, "high": 0.09})
    observations = vec_env.reset()
    assert ((observations >= 0.08) & (observations <= 0.09)).all()
    observations = vec_env.step(random_actions(1)[0])[0]
    assert (np.abs(observations) <= 0.05).all()
    vec_env.set_options([{"low": -0.01 * index} for index in range(N_ENVS)])
    with pytest.raises(ValueError, match="the same options"):
        vec_env.reset()


def test_results_do_not_change_later():
    vec_env = make()
    kept = [vec_env.step(actions) for actions in random_actions(30)]
    copies = [[array.copy() for array in result[:3]] for result in kept]
    for actions in random_actions(30, seed=1):
        vec_env.step(actions)
    np.testing.assert_equal([list(result[:3]) for result in kept], copies)


@pytest.mark.parametrize("actions", [[0] * 7, [0] * 7 + [2], [0] * 7 + [-1], [[0]] * 8])
def test_wrong_actions_get_an_error(actions):
    with pytest.raises(ValueError, match="8 numbers, each 0 or 1"):
        make().step(np.array(actions))


def test_a_step_before_the_first_reset_gets_an_error():
    with pytest.raises(RuntimeError, match="reset"):
        CartPoleVecEnv(2).step(np.zeros(2, dtype=np.int64))


def test_monitor_files_hold_every_episode(tmp_path):
    vec_env = make(monitor_dir=str(tmp_path), start_index=2)
    episodes = [
        info["episode"] for actions in random_actions(300) for info in vec_env.step(actions)[3] if "episode" in info
    ]
    vec_env.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{rank}.monitor.csv" for rank in range(2, 10)]
    table = load_results(str(tmp_path))
    assert sorted(table["l"]) == sorted(episode["l"] for episode in episodes)
    assert (table["r"] == table["l"]).all()
    assert '"env_id": "CartPole-v1"' in (tmp_path / "2.monitor.csv").read_text()


def test_attributes_are_those_of_the_environment():
    vec_env = make(max_episode_steps=77)
    (spec,) = vec_env.get_attr("spec", 0)
    assert (spec.id, spec.max_episode_steps) == ("CartPole-v1", 77)
    assert vec_env.get_attr("gravity") == [9.8] * N_ENVS and vec_env.get_attr("render_mode", [0, 1]) == [None, None]
    assert vec_env.has_attr("tau") and not vec_env.has_attr("flavour")
    assert vec_env.observation_space == gym.make("CartPole-v1").observation_space
    assert vec_env.env_is_wrapped(Monitor) == [True] * N_ENVS
    assert vec_env.env_is_wrapped(gym.wrappers.TimeLimit, 0) == [True]
    assert vec_env.env_is_wrapped(RecordVideo, 0) == [False]
    with pytest.raises(AttributeError, match="fly"):
        vec_env.env_method("fly")


def test_a_constant_that_is_set_changes_the_motion_of_all_copies():
    light, heavy = make(), make()
    heavy.set_attr("gravity", 30.0)
    actions = random_actions(1)[0]
    assert not (light.step(actions)[0][:, 3] == heavy.step(actions)[0][:, 3]).any()
    with pytest.raises(ValueError, match="share 'gravity'"):
        heavy.set_attr("gravity", 1.0, indices=0)


def test_a_picture_shows_the_state_of_its_copy():
    vec_env = make(n_envs=2, render_mode="rgb_array")
    scalar = gym.make("CartPole-v1", render_mode="rgb_array")
    scalar.reset()
    vec_env.set_attr("state", [1.0, 0.0, 0.1, 0.0], indices=1)
    images = vec_env.get_images()
    scalar.unwrapped.state = np.array([1.0, 0.0, 0.1, 0.0])
    np.testing.assert_array_equal(images[1], scalar.render())
    assert (images[0] != images[1]).any()
    assert vec_env.render().shape == (800, 600, 3)
    with pytest.raises(ValueError, match="render_mode='human' is not one of 'rgb_array'"):
        CartPoleVecEnv(1, render_mode="human")


def test_ppo_learns_to_balance_and_is_evaluated_without_warnings(recwarn):
    vec_env = make()
    model = PPO("MlpPolicy", vec_env, n_steps=64, batch_size=256, n_epochs=10, gae_lambda=0.8, gamma=0.98,
                learning_rate=3e-3, seed=0, device="cpu").learn(10_000)  # fmt: skip
    assert len(model.ep_info_buffer) == 100
    mean, _ = evaluate_policy(model, make(seed=9), n_eval_episodes=16)
    assert mean > 100
    assert not [warning for warning in recwarn if "Monitor" in str(warning.message)]
