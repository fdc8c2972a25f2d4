"""The rows of real trainings are complete and right."""

import math

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from recorded_training import (
    ACTIONS,
    CLIPPED,
    ENV,
    FOUR,
    SCALED,
    TIME,
    VALUES,
    KeepBuffer,
    Steady,
    make_model,
    rows_of_training,
)
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.callbacks.metrics.callback import Metrics


@pytest.mark.parametrize("algorithm", [PPO, PPOExt, A2C, REINFORCE])
def test_the_statistics_of_a_row_are_those_of_its_rollout(algorithm):
    keep = KeepBuffer()
    recorder = rows_of_training(make_model(algorithm), callbacks=[keep])
    rows = [row for row in recorder.rows if "time/fps" in row]
    assert len(rows) == len(keep.rollouts) == 3
    for row, buffer in zip(rows, keep.rollouts, strict=True):
        advantages = buffer.returns - buffer.values
        columns = {
            "env/obs": buffer.observations,
            "policy/action": buffer.actions,
            "rollout/return": buffer.returns,
            "rollout/advantage": advantages,
        }
        for name, numbers in columns.items():
            found = [row[f"{name}_{what}"] for what in FOUR]
            expected = [numbers.mean(), numbers.std(), numbers.min(), numbers.max()]
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-5), name
        assert row["rollout/value_error"] == pytest.approx(np.sqrt(np.square(advantages).mean()), rel=1e-4)
        assert row["rollout/value_mean"] == pytest.approx(buffer.values.mean(), rel=1e-4)
        if "train/entropy_loss" in row:
            assert row["policy/entropy"] == -row["train/entropy_loss"]
        else:
            assert row["policy/entropy"] == pytest.approx(min(-buffer.log_probs.mean(), math.log(3)), rel=1e-4)


@pytest.mark.parametrize("action", ACTION_SPACES)
@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
def test_every_action_space_has_its_statistics_and_its_histogram(algorithm, action):
    recorder = rows_of_training(make_model(algorithm, action), steps=64)
    row = recorder.rows[1]
    of_space = {"policy/action_saturation"} if action == "Box" else {"policy/prob_max"}
    assert TIME | ENV | ACTIONS | VALUES | SCALED | of_space <= set(row)
    assert ("policy/action_saturation" in row) == (action == "Box")
    histogram = row["policy/action_hist"]
    assert histogram.ndim == 1 and len(histogram) == 32 * math.prod(ACTION_SPACES[action].shape or (1,))
    assert histogram.mean() == pytest.approx(row["policy/action_mean"])
    assert set(recorder.excluded["policy/action_hist"]) == {"stdout", "log", "json", "csv"}


@pytest.mark.parametrize(
    ("algorithm", "action", "more"),
    [
        (PPO, "Discrete", VALUES | SCALED | CLIPPED | {"policy/prob_max", "rollout/env_diversity"}),
        (A2C, "Box", VALUES | SCALED | CLIPPED | {"policy/action_saturation"}),
        (RecurrentPPO, "Discrete", VALUES | SCALED | CLIPPED | {"policy/prob_max", "policy/dead_relus"}),
        (MaskablePPO, "MultiDiscrete", VALUES | SCALED | CLIPPED | {"policy/prob_max"}),
        (REINFORCE, "Discrete", VALUES | SCALED | {"policy/prob_max"}),
        (DQN, "Discrete", {"policy/dead_relus", "train/grad_norm_clipped"}),
        (SAC, "Box", {"policy/dead_relus", "policy/action_saturation", "train/grad_norm_clipped_actor"}),
    ],
)
def test_every_algorithm_has_what_makes_sense_for_it(algorithm, action, more):
    kwargs = {}
    if algorithm is RecurrentPPO:
        kwargs = {"policy_kwargs": {"activation_fn": th.nn.ReLU, "lstm_hidden_size": 8}}
    recorder = rows_of_training(make_model(algorithm, action, **kwargs), steps=112)
    row = [row for row in recorder.rows if "time/fps" in row][-1]
    expected = TIME | ENV | ACTIONS | more | {"rollout/score_best", "rollout/score_auc"}
    assert expected <= set(row)
    numbers = {name: row[name] for name in expected}
    assert all(math.isfinite(number) for number in numbers.values()), numbers


@pytest.mark.parametrize("observation", OBSERVATION_SPACES)
@pytest.mark.parametrize("algorithm", [PPO, REINFORCE, DQN])
def test_every_observation_space_has_a_histogram(algorithm, observation):
    model = make_model(algorithm, observation=observation)
    row = [row for row in rows_of_training(model, steps=48).rows if "time/fps" in row][-1]
    assert row["env/obs_hist"].ndim == 1
    assert ("env/obs_mean" in row) == (observation != "Discrete")
    if observation == "image":
        assert 0.0 <= row["env/obs_min"] < row["env/obs_max"] <= 1.0


def test_the_value_that_a_time_limit_adds_is_no_reward():
    model = make_model(PPO, env=make_vec_env(Steady, 2))
    with th.no_grad():
        model.policy.value_net.bias.fill_(1000.0)
    keep = KeepBuffer()
    row = rows_of_training(model, steps=32, callbacks=[keep]).rows[0]
    assert keep.rollouts[0].rewards.max() > 100
    assert [row[f"env/reward_{name}"] for name in FOUR] == [1.0, 0.0, 1.0, 1.0]
    assert row["rollout/episodes"] == 2
    assert row["time/episodes"] == 2


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_observations_and_rewards_are_the_normalised_ones(algorithm):
    low, high = np.full(4, 100.0, np.float32), np.full(4, 300.0, np.float32)
    env = VecNormalize(make_vec_env(lambda: RandomEnv(spaces.Box(low, high), spaces.Discrete(2)), 2, seed=0))
    row = [row for row in rows_of_training(make_model(algorithm, env=env)).rows if "env/obs_max" in row][-1]
    assert abs(row["env/obs_mean"]) < 1.0 and 0.3 < row["env/obs_std"] < 3.0
    assert row["env/obs_max"] < 10.0


def test_the_numbers_of_the_last_update_are_written():
    recorder = rows_of_training(make_model(PPO), steps=64)
    assert recorder.steps == [32, 64, 64]
    assert recorder.rows[-1]["train/n_updates"] == recorder.rows[-1]["time/n_updates"] == 4
    assert SCALED | CLIPPED | {"policy/entropy"} <= set(recorder.rows[-1])
    assert not ENV & set(recorder.rows[-1])


@pytest.mark.parametrize("ent_coef", [0.01, "lin_0.01"])
def test_losses_are_scaled_with_the_coefficients_of_their_update(ent_coef):
    rows = rows_of_training(make_model(PPOExt, vf_coef=0.25, ent_coef=ent_coef), steps=64).rows
    assert not SCALED & set(rows[0])
    for row, weight in zip(rows[1:], [0.01, 0.01] if ent_coef == 0.01 else [0.005, 0.0], strict=True):
        assert row["train/scaled_policy_loss"] == pytest.approx(row["train/policy_gradient_loss"])
        assert row["train/scaled_value_loss"] == pytest.approx(0.25 * row["train/value_loss"])
        assert row["train/scaled_entropy_loss"] == pytest.approx(weight * row["train/entropy_loss"])


def test_gradients_are_those_that_the_update_left():
    model = make_model(PPO, max_grad_norm=1e-3)
    row = rows_of_training(model, steps=32).rows[-1]
    assert row["train/grad_norm_clipped"] == pytest.approx(1e-3, rel=0.01)
    total = math.hypot(row["train/grad_norm_clipped_actor"], row["train/grad_norm_clipped_critic"])
    assert total == pytest.approx(row["train/grad_norm_clipped"])
    assert not CLIPPED & set(rows_of_training(make_model(PPOExt), steps=32).rows[-1])


def test_histograms_are_written_where_they_can_be(tmp_path, capsys):
    model = make_model(PPO)
    model.set_logger(configure(str(tmp_path), ["stdout", "csv", "json", "tensorboard"]))
    model.learn(32, callback=Metrics())
    model.logger.close()
    model.get_env().close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert {"env/obs_hist", "env/reward_hist", "policy/action_hist"} == set(events.Tags()["histograms"])
    assert "env/obs_mean" in events.Tags()["scalars"]
    files = [(tmp_path / name).read_text() for name in ("progress.csv", "progress.json")]
    for text in (capsys.readouterr().out, *files):
        assert "obs_mean" in text and "obs_hist" not in text
