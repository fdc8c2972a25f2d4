"""Trainings of studies: they equal those of ``rl_zoo3.train``, leave nothing behind, and never raise when they fail."""

import gc
import time
from contextlib import chdir

import gymnasium as gym
import numpy as np
import psutil
import pytest
import torch as th
import yaml
from trial_sections import DQN, PPO, KeepParameters
from zoo_in_process import train

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.trial_training import TrialTraining, train_trial


def make_training(algo="ppo_ext", section=PPO, env_id="CartPole-v1", seed=1, timesteps=300, **settings):
    settings = {"evaluations": 3, "episodes": 2, **settings}
    return TrialTraining(algo, env_id, section, seed, timesteps, **settings)


def curve_of(*args, **kwargs):
    return train_trial(make_training(*args, **kwargs), lambda point: True)


def kept_by(do):
    KeepParameters.kept.clear()
    do()
    return KeepParameters.kept[0]


@pytest.mark.parametrize(
    ("algo", "section", "env_id"),
    [
        ("ppo_ext", {**PPO, "ext": {"report": False}}, "CartPole-v1"),
        ("ppo_ext", {**PPO, "normalize": True, "learning_rate": "lin_0.001", "ext": {"report": False}}, "Acrobot-v1"),
        ("dqn", DQN, "CartPole-v1"),
        (
            "sac",
            {**DQN, "learning_starts": 250, "ent_coef": "auto", "noise_type": "normal", "noise_std": 0.1},
            "Pendulum-v1",
        ),
    ],
)
def test_parameters_equal_those_of_the_train_command(tmp_path, algo, section, env_id):
    section = {**section, "callback": "trial_sections.KeepParameters"}
    (tmp_path / "conf.yml").write_text(yaml.safe_dump({env_id: section}))
    command = f"--algo {algo} --env {env_id} --seed 1 --eval-freq 100 --eval-episodes 1 -conf conf.yml"
    expected = kept_by(lambda: train(command, tmp_path))
    actual = kept_by(lambda: curve_of(algo, section, env_id))
    assert all(th.equal(actual[name], value) for name, value in expected.items())


def test_sampled_actions_of_evaluations_change_nothing(monkeypatch):
    is_minigrid = staticmethod(lambda env_id: True)
    monkeypatch.setattr("rl_zoo3.exp_manager.ExperimentManager.is_minigrid", is_minigrid)
    section = {**PPO, "callback": "trial_sections.KeepParameters"}
    rarely, often = (kept_by(lambda n=n: curve_of(section=section, evaluations=n)) for n in (1, 5))
    assert all(th.equal(often[name], value) for name, value in rarely.items())


@pytest.mark.parametrize(("timesteps", "evaluations"), [(400, 6), (300, 7), (128, 3), (200, 2)])
def test_each_part_of_a_training_is_evaluated_once(timesteps, evaluations):
    """In floating point, 400 / 6 * 3 is a little more than 200."""
    steps = [point.step for point in curve_of(timesteps=timesteps, evaluations=evaluations).points]
    parts = [-(-n * timesteps // evaluations) for n in range(1, evaluations + 1)]
    assert len(steps) == evaluations
    assert all(0 <= step - part < 128 for step, part in zip(steps, parts, strict=True))


def test_evaluations_are_evenly_spaced_and_the_last_one_is_at_the_end():
    curve = curve_of(timesteps=300, evaluations=3)
    assert [point.step for point in curve.points] == [100, 200, 384]
    assert (curve.steps, curve.is_stopped, curve.error) == (384, False, None)


def test_scores_are_the_environments_own_rewards():
    section = {**PPO, "normalize": True, "env_kwargs": {"max_episode_steps": 7}}
    assert {point.score for point in curve_of(section=section).points} == {7.0}


def test_a_training_ends_when_it_is_told_to():
    curve = train_trial(make_training(), lambda point: point.step < 200)
    assert [point.step for point in curve.points] == [100, 200]
    assert curve.is_stopped
    assert curve.steps == 200


def test_a_limit_of_time_ends_a_training_with_an_evaluation():
    curve = curve_of(timesteps=100_000, max_seconds=0.0)
    assert [point.step for point in curve.points] == [2]
    assert curve.is_stopped


def test_seconds_leave_out_evaluations_and_answers():
    curve = train_trial(make_training(), lambda point: time.sleep(0.2) or True)
    assert curve.seconds - curve.points[-1].seconds > 0.4


@pytest.mark.parametrize("algo", ["ppo_ext", "ppo"])
def test_a_diverged_training_has_an_error_and_the_points_before(algo):
    curve = curve_of(algo, {**PPO, "learning_rate": 1e20, "max_grad_norm": 1e20}, "Pendulum-v1")
    assert curve.error
    assert [point.step for point in curve.points] == [100]


@pytest.mark.parametrize(
    ("algo", "section", "message"),
    [
        ("ppo_ext", {**PPO, "clip_rang": 0.1}, "section CartPole-v1: PPOExt has no parameter 'clip_rang'"),
        ("dqn", {**DQN, "gama": 0.1}, "section CartPole-v1: DQN has no parameter 'gama'"),
        ("ppo", {**PPO, "policy_kwargs": {"net_arh": [3]}}, "net_arh"),
        ("ppo_ext", {**PPO, "ext": {"resume": "CartPole-v1_1"}}, "ext: resume"),
        ("ppo_ext", {**PPO, "ext": {"init_from": "CartPole-v1_999"}}, "CartPole-v1_999"),
        ("ppo_mask_ext", PPO, "ppo_mask_ext needs an environment with a method action_masks"),
        ("ppo_exd", PPO, "'ppo_ext'"),
    ],
)
def test_a_mistake_is_a_usage_error(tmp_path, algo, section, message):
    with chdir(tmp_path), pytest.raises(UsageError, match=message):
        curve_of(algo, section)


@pytest.mark.parametrize(
    ("changed", "message"), [({"env_id": "CartPol-v1"}, "CartPole"), ({"gym_packages": ("no_",)}, "no_")]
)
def test_an_unknown_environment_or_package_is_a_usage_error(changed, message):
    with pytest.raises(UsageError, match=message):
        curve_of(**changed)


def test_ctrl_c_goes_through():
    def interrupt(point):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_trial(make_training(), interrupt)


def test_nothing_is_printed_and_no_file_is_written(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with chdir(tmp_path):
        curve_of(section={**PPO, "ext": {"report": True, "tracking": True, "checkpoints": True}})
        curve_of("dqn", DQN)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_warning_is_shown_once(monkeypatch):
    monkeypatch.setattr("sb3_ext.zoo.trial_training._shown", set())
    with pytest.warns(UserWarning, match="mini-batch size of 48") as shown:
        for seed in range(2):
            curve_of("ppo", {**PPO, "batch_size": 48}, seed=seed)
    assert len([warning for warning in shown if "mini-batch" in str(warning.message)]) == 1


def test_the_section_is_left_as_it_was():
    section = {**PPO, "normalize": {"norm_reward": False}, "gamma": 0.9}
    before = repr(section)
    curve_of(section=section)
    assert repr(section) == before


ALGORITHMS = {
    "a2c": {"n_envs": 2},
    "a2c_ext": {"n_envs": 2},
    "ars": {"policy": "LinearPolicy", "n_delta": 2, "n_envs": 1},
    "ppo_lstm": {"policy": "MlpLstmPolicy", "n_steps": 32, "batch_size": 32, "n_epochs": 1},
    "ppo_lstm_ext": {"policy": "MlpLstmPolicy", "n_steps": 32, "batch_size": 32, "n_epochs": 1},
    "qrdqn": {"learning_starts": 50},
    "reinforce": {"n_envs": 2},
    "trpo": {"n_steps": 64, "batch_size": 64},
}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_kind_of_algorithm_can_be_trained(algo):
    curve = curve_of(algo, {"policy": "MlpPolicy", "n_timesteps": 1, **ALGORITHMS[algo]}, timesteps=64, evaluations=1)
    assert curve.error is None
    assert len(curve.points) == 1


class OneLegalAction(gym.Env):
    """Its score is 1 if only legal actions were chosen."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(50)

    def action_masks(self):
        return np.arange(50) == 7

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action == 7), True, False, {}


def test_evaluations_use_action_masks(monkeypatch):
    spec = gym.envs.registration.EnvSpec("OneLegalAction-v0", OneLegalAction, disable_env_checker=True)
    monkeypatch.setitem(gym.registry, spec.id, spec)
    curve = curve_of("ppo_mask_ext", PPO, "OneLegalAction-v0", timesteps=128, evaluations=1)
    assert [point.score for point in curve.points] == [1.0]


def test_a_curriculum_and_several_environments_are_trained():
    stages = [{"name": "easy", "next": {"steps": 100}}, {"name": "hard"}]
    members = [{"weight": 1}, {"weight": 1, "env_kwargs": {"sutton_barto_reward": True}}]
    for ext in ({"curriculum": {"stages": stages}}, {"members": members}):
        assert curve_of(section={**PPO, "ext": ext}).error is None


def test_twenty_trainings_in_a_row_leave_nothing_behind(request):
    process = psutil.Process()

    def usage():
        gc.collect()
        return process.num_fds(), len(gc.get_objects()), len(process.children())

    section = {**DQN, "buffer_size": 100_000}
    curve_of("dqn", section, timesteps=110)
    curve_of(timesteps=110)
    gc.freeze()  # looking for garbage among all objects would take most of the time
    request.addfinalizer(gc.unfreeze)
    files, objects, children = usage()
    memory = process.memory_info().rss
    for seed in range(10):
        curve_of("dqn", section, seed=seed, timesteps=110)
        curve_of(seed=seed, timesteps=110)
    assert usage() == (files, pytest.approx(objects, abs=500), children)
    assert process.memory_info().rss - memory < 20e6
