"""Environments continue bit-identically after their state was saved and restored."""

import functools
import importlib.util
import itertools
import multiprocessing

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeReward, StickyAction, TransformReward
from odd_envs import OddEnv, SavableSimulatorEnv, SimulatorEnv
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecMonitor, VecNormalize

import sb3_ext.envs  # noqa: F401  registers the ids
from sb3_ext.vec_env import atari_game
from sb3_ext.vec_env.cartpole import CartPoleVecEnv
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.vec_env.native_atari import make_native_atari_env
from sb3_ext.vec_env.state import restore_envs, restore_statistics, save_envs
from sb3_ext.wrappers import (
    ActionNoise,
    CartPoleRandomization,
    CartPoleShaping,
    CountBonus,
    DomainRandomization,
    FrameSkip,
    MountainCarPotential,
    ObservationDelay,
    ObservationDropout,
    ObservationNoise,
    PreviousActions,
    RewardTerms,
    ScaleObservations,
    StickyActions,
    TimePenalty,
    share_counts,
    time_limit,
    wrap_in_curriculum,
)

N_ENVS = 3
IDS = [
    *("CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"),
    *("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"),
    *("Bandit-v0", "Pong-v5_objects"),
    pytest.param(
        "MinAtar/Seaquest-v1", marks=pytest.mark.skipif(not importlib.util.find_spec("minatar"), reason="no MinAtar")
    ),
]


def make(env_id, seed=7, vec_env_cls=DummyVecEnv, **kwargs):
    return make_vec_env(env_id, N_ENVS, seed=seed, vec_env_cls=vec_env_cls, **kwargs)


def play(env, n_steps, seed):
    """All that the steps return, without times."""
    random = np.random.default_rng(seed)
    results = []
    for _ in range(n_steps):
        env.action_space.seed(int(random.integers(2**31)))
        actions = np.array([env.action_space.sample() for _ in range(env.num_envs)])
        observations, rewards, dones, infos = env.step(actions)
        for info in infos:
            info.get("episode", {}).pop("t", None)
        results.append((observations, rewards, dones, infos, env.reset_infos))
    return results


def assert_continues(make_env, n_before=40, n_after=200, make_again=None):
    """Returns the number of episodes that ended after the state was restored."""
    original, restored = make_env(), (make_again or make_env)()
    original.reset()
    play(original, n_before, seed=1)
    states = save_envs(original)
    assert states.problem is None
    # The new one may have been used already
    restored.seed(99)
    restored.reset()
    play(restored, 5, seed=2)
    restore_envs(restored, states)
    expected, actual = play(original, n_after, seed=3), play(restored, n_after, seed=3)
    np.testing.assert_equal(actual, expected)
    for env in (original, restored):
        env.close()
    return sum(dones.sum() for _, _, dones, _, _ in expected)


@pytest.mark.parametrize("env_id", IDS)
def test_an_environment_continues_where_it_was_saved(env_id):
    assert_continues(lambda: make(env_id))


def test_atari_with_its_wrappers_and_frames_continues():
    def make_env():
        env = make("Pong-v5", wrapper_class=AtariWrapper)
        return VecFrameStack(env, 4)

    assert_continues(make_env, n_after=60)


STAGES = {
    "stages": [{"name": "short", "env_kwargs": {"sutton_barto_reward": True}, "next": {"steps": 1}}, {"name": "end"}]
}
OUR_WRAPPERS = {
    "randomization": ("CartPole-v1", lambda env: CartPoleRandomization(env, {"gravity": {"uniform": [5, 15]}})),
    "domain": ("Pendulum-v1", lambda env: DomainRandomization(env, {"unwrapped.g": {"uniform": [5, 15]}})),
    "action noise": ("Pendulum-v1", lambda env: ActionNoise(env, std=0.3)),
    "observation noise": ("CartPole-v1", lambda env: ObservationNoise(env, std=0.1)),
    "dropout": ("CartPole-v1", lambda env: ObservationDropout(env, 0.3, fill="last")),
    "delay": ("CartPole-v1", lambda env: ObservationDelay(env, 2)),
    "sticky": ("Acrobot-v1", lambda env: StickyActions(env, 0.5)),
    "history": ("CartPole-v1", lambda env: PreviousActions(env, 3)),
    "scale": ("MountainCar-v0", ScaleObservations),
    "frame skip": ("CartPole-v1", lambda env: FrameSkip(env, [1, 4])),
    "time limit": ("Pendulum-v1", lambda env: time_limit(env, 30)),
    "shaping": ("CartPole-v1", lambda env: CartPoleShaping(TimePenalty(env, after=5), {"centring": 1.0})),
    "potential": ("MountainCar-v0", lambda env: MountainCarPotential(env, gamma=0.9)),
    "function": ("CartPole-v1", lambda env: RewardTerms(env, {"x": 1.0}, {"x": lambda step: abs(step.observation[0])})),
    "counts": ("FrozenLake-v1", CountBonus),
    "curriculum": ("CartPole-v1", lambda env: wrap_in_curriculum(env, STAGES)),
    "gymnasium": (
        "CartPole-v1",
        lambda env: TransformReward(StickyAction(NormalizeReward(env), 0.3), lambda reward: reward / 2),
    ),
}


@pytest.mark.parametrize(("env_id", "wrap"), OUR_WRAPPERS.values(), ids=OUR_WRAPPERS)
def test_wrappers_of_environments_continue(env_id, wrap):
    assert_continues(lambda: make(env_id, wrapper_class=wrap))


WRAPPERS = {
    "normalize": VecNormalize,
    "normalize and stack": lambda env: VecFrameStack(VecNormalize(env, gamma=0.9), 3),
    "stack, monitor and normalize": lambda env: VecNormalize(VecMonitor(VecFrameStack(env, 2))),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_of_vectorised_environments_continue(wrap):
    assert assert_continues(lambda: wrap(make("CartPole-v1"))) > 10


def test_statistics_are_bit_identical_and_evaluation_mode_is_kept():
    original, restored = VecNormalize(make("CartPole-v1")), VecNormalize(make("CartPole-v1", seed=8))
    for env in (original, restored):
        env.reset()
        play(env, 50, seed=4)
    original.training = False
    restore_envs(restored, save_envs(original))
    for name in ("mean", "var", "count"):
        np.testing.assert_equal(getattr(restored.obs_rms, name), getattr(original.obs_rms, name))
        np.testing.assert_equal(getattr(restored.ret_rms, name), getattr(original.ret_rms, name))
    np.testing.assert_equal(restored.returns, original.returns)
    np.testing.assert_equal(restored.get_original_obs(), original.get_original_obs())
    assert restored.training is False


def test_native_cartpole_continues():
    assert assert_continues(lambda: VecNormalize(CartPoleVecEnv(N_ENVS))) > 10


@pytest.mark.parametrize("longest_replay", [10_000, 100])
def test_native_atari_repeats_its_actions(longest_replay, monkeypatch):
    monkeypatch.setattr(atari_game, "_LONGEST_REPLAY", longest_replay)
    seeds = itertools.count(3, step=2)
    assert assert_continues(lambda: make_native_atari_env("Breakout-v5", 2, seed=next(seeds)), 250, 100) > 2


MULTICORE = functools.partial(MulticoreVecEnv, n_workers=2, start_method="fork")
SUBPROC = functools.partial(SubprocVecEnv, start_method="fork")
PROCESSES = {
    "multicore": (MULTICORE, MULTICORE),
    "subproc": (SUBPROC, SUBPROC),
    "dummy to multicore": (DummyVecEnv, MULTICORE),
    "multicore to dummy": (MULTICORE, DummyVecEnv),
}


@pytest.mark.parametrize(("before", "after"), PROCESSES.values(), ids=PROCESSES)
def test_environments_in_other_processes_continue(before, after):
    make_env, make_again = (
        lambda cls=cls: VecNormalize(make("CartPole-v1", vec_env_cls=cls)) for cls in (before, after)
    )
    assert assert_continues(make_env, make_again=make_again) > 10


@pytest.mark.parametrize("vec_env_cls", [MULTICORE, SUBPROC])
def test_what_cant_be_saved_in_another_process_leaves_it_usable(vec_env_cls):
    env = make("LunarLander-v3", vec_env_cls=vec_env_cls)
    env.reset()
    assert "Box2D" in save_envs(env).problem
    play(env, 2, seed=1)
    env.close()


def test_what_cant_be_saved_is_named_and_the_wrappers_are_saved():
    original, restored = VecNormalize(make("LunarLander-v3")), VecNormalize(make("LunarLander-v3", seed=8))
    for env in (original, restored):
        env.reset()
    play(original, 5, seed=1)
    states = save_envs(original)
    assert states.problem.startswith("The state of LunarLander-v3 can't be saved: LunarLander.")
    assert "SwigPyObject" in states.problem
    restore_envs(restored, states)
    np.testing.assert_equal(restored.obs_rms.mean, original.obs_rms.mean)


OTHERS = {
    "number of environments": (lambda: make_vec_env("CartPole-v1", 2), "2 environments.*3 now"),
    "environment": (lambda: make("CartPole-v0"), "another environment.*CartPole-v0.*CartPole-v1"),
    "argument": (lambda: make("CartPole-v1", env_kwargs={"sutton_barto_reward": True}), "sutton_barto_reward"),
    "wrapper of an environment": (lambda: make("CartPole-v1", wrapper_class=gym.wrappers.Autoreset), "Autoreset"),
    "wrapper": (lambda: VecNormalize(make("CartPole-v1")), "VecNormalize.* where this one has nothing"),
    "native": (lambda: CartPoleVecEnv(N_ENVS), "not that of a DummyVecEnv.*native"),
}


@pytest.mark.parametrize(("make_other", "message"), OTHERS.values(), ids=OTHERS)
def test_a_state_of_other_environments_is_refused_and_nothing_changes(make_other, message):
    other, env, reference = make_other(), make("CartPole-v1"), make("CartPole-v1")
    for each in (other, env, reference):
        each.reset()
    with pytest.raises(ValueError, match=message):
        restore_envs(env, save_envs(other))
    np.testing.assert_equal(play(env, 50, seed=5), play(reference, 50, seed=5))


def test_statistics_fit_another_number_of_environments():
    original, restored = VecNormalize(make("CartPole-v1")), VecNormalize(make_vec_env("CartPole-v1", 2))
    for env in (original, restored):
        env.reset()
    play(original, 50, seed=1)
    restore_statistics(restored, save_envs(original))
    np.testing.assert_equal(restored.obs_rms.var, original.obs_rms.var)
    np.testing.assert_equal(restored.ret_rms.var, original.ret_rms.var)
    play(restored, 5, seed=1)


def test_statistics_of_other_observations_are_not_restored():
    original, restored = VecNormalize(make("CartPole-v1")), VecNormalize(make("Acrobot-v1"))
    original.reset()
    restore_statistics(restored, save_envs(original))
    assert restored.obs_rms.mean.shape == (6,)


def test_an_object_that_cant_be_pickled_is_named():
    env = make(SimulatorEnv)
    env.reset()
    states = save_envs(env)
    assert states.problem == (
        "The state of SimulatorEnv can't be saved: SimulatorEnv.simulator (odd_envs.Simulator) can't be pickled: "
        "cannot pickle '_thread.lock' object."
    )


@pytest.mark.parametrize("env_class", [OddEnv, SavableSimulatorEnv])
def test_shared_objects_functions_and_own_methods_continue(env_class):
    assert assert_continues(lambda: make(env_class)) > 10


class CountingVecEnv(DummyVecEnv):
    """Has a state of its own."""

    n_steps = 0

    def step_wait(self):
        self.n_steps += 1
        return super().step_wait()


def test_a_subclass_of_a_known_vectorised_environment_is_a_problem():
    env = make("CartPole-v1", vec_env_cls=CountingVecEnv)
    env.reset()
    assert save_envs(env).problem.startswith("The state of CountingVecEnv can't be saved: CountingVecEnv.envs (list)")


def test_rendering_is_neither_saved_nor_needed():
    def make_env():
        env = make("CartPole-v1", env_kwargs={"render_mode": "rgb_array"})
        env.reset()
        return env

    original, restored = make_env(), make_env()
    image = original.get_images()[0]
    restore_envs(restored, save_envs(original))
    assert restored.envs[0].unwrapped.screen is None
    np.testing.assert_equal(restored.get_images()[0], image)


def test_the_random_actions_of_a_space_continue_in_the_same_object():
    original, restored = make("CartPole-v1"), make("CartPole-v1", seed=8)
    space = restored.action_space
    original.action_space.sample()
    for env in (original, restored):
        env.reset()
    restore_envs(restored, save_envs(original))
    assert [space.sample() for _ in range(20)] == [original.action_space.sample() for _ in range(20)]
    assert restored.envs[0].action_space is space


def test_a_monitor_goes_on_without_the_time_in_between(tmp_path):
    original, restored = (
        make("CartPole-v1", monitor_dir=str(tmp_path / "a")),
        make("CartPole-v1", monitor_dir=str(tmp_path / "b")),
    )
    original.envs[0].t_start -= 1000
    for env in (original, restored):
        env.reset()
    play(original, 100, seed=1)
    restore_envs(restored, save_envs(original))
    play(restored, 100, seed=2)
    rows = (tmp_path / "b" / "0.monitor.csv").read_text().splitlines()[2:]
    assert len(rows) > 1
    assert all(1000 < float(row.split(",")[2]) < 1100 for row in rows)


def test_a_curriculum_continues_in_its_stage():
    def make_env():
        return make("CartPole-v1", wrapper_class=lambda env: wrap_in_curriculum(env, STAGES))

    original, restored = make_env(), make_env()
    for env in (original, restored):
        env.reset()
    original.env_method("set_stage", 1, indices=[0, 1])
    play(original, 100, seed=1)
    restore_envs(restored, save_envs(original))
    # And back to an environment that was made before
    for env in (original, restored):
        env.env_method("set_stage", 0, indices=[1])
    np.testing.assert_equal(play(restored, 200, seed=2), play(original, 200, seed=2))
    assert restored.get_attr("stage") == [1, 0, 0]


def test_shared_counts_stay_shared():
    def make_env():
        env = make("FrozenLake-v1", wrapper_class=lambda env: CountBonus(env, shared=True))
        share_counts(env)
        return env

    assert assert_continues(make_env) > 10


def play_and_save(env_ids):
    """In another process."""
    results = []
    for env_id in env_ids:
        env = VecNormalize(make(env_id))
        env.reset()
        play(env, 40, seed=1)
        results.append((save_envs(env), play(env, 100, seed=3)))
    return results


def test_environments_continue_in_another_process():
    env_ids = ["CartPole-v1", "MountainCar-v0", "Pong-v5_objects"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        saved = pool.apply(play_and_save, (env_ids,))
    for env_id, (states, expected) in zip(env_ids, saved, strict=True):
        env = VecNormalize(make(env_id, seed=8))
        env.reset()
        restore_envs(env, states)
        np.testing.assert_equal(play(env, 100, seed=3), expected)


def test_environments_that_have_died_are_a_problem():
    env = make("CartPole-v1", vec_env_cls=MULTICORE)
    env.reset()
    env.close()
    assert "they don't answer" in save_envs(env).problem
