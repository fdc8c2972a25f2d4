"""The callback leaves trainings as they are, costs little, goes on where they go on, and reads its options."""

import math
import pickle

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from recorded_training import ACTIONS, ENV, TIME, VALUES, Steady, make_model, record, rows_of_training
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy

from sb3_ext import PPOExt
from sb3_ext.callbacks.metrics.callback import Metrics, MetricsOptions
from sb3_ext.common.options import read_switch
from sb3_ext.runs.rows import RowStream


@pytest.mark.parametrize("algorithm", [PPO, PPOExt, DQN, SAC])
def test_training_is_the_same_with_and_without(algorithm):
    def parameters(callback):
        kwargs = {"fast": "alone"} if algorithm is PPOExt else {}
        action = "Box" if algorithm is SAC else "Discrete"
        model = make_model(algorithm, action, policy_kwargs={"activation_fn": th.nn.ReLU, "net_arch": [16]}, **kwargs)
        recorder = record(model)
        model.learn(64 if algorithm is SAC else 128, callback=callback, log_interval=1)
        model.get_env().close()
        return model.policy.state_dict(), th.get_rng_state(), np.random.get_state()[1].copy(), recorder.rows

    without, rng, numpy_rng, _ = parameters(None)
    given, rng_with, numpy_rng_with, rows = parameters(Metrics(max_cost=1, histogram_seconds=0))
    assert any("policy/dead_relus" in row for row in rows)
    assert all(th.equal(parameter, given[name]) for name, parameter in without.items())
    assert th.equal(rng, rng_with)
    assert np.array_equal(numpy_rng, numpy_rng_with)


def test_the_fast_path_is_kept():
    model = make_model(PPOExt, policy_kwargs={"activation_fn": th.nn.ReLU})
    fast_policies = []

    class Look(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_start(self):
            fast_policies.append(self.model.fast_policy)

    rows_of_training(model, callbacks=[Look()])
    assert fast_policies[0] is not None and len({id(policy) for policy in fast_policies}) == 1


def test_a_training_that_goes_on_counts_on():
    model = make_model(PPO)
    rows_of_training(model, steps=64)
    recorder = record(model)
    model.set_env(make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"]), 2))
    model.learn(64, callback=Metrics(), reset_num_timesteps=False)
    first, second = recorder.rows[:2]
    assert (first["time/vec_steps"], second["time/vec_steps"]) == (48, 64)
    assert (first["time/progress"], second["time/progress"]) == (0.75, 1.0)
    assert first["time/n_updates"] == 4
    # The 32 steps that are left take about as long as the 32 before, which is also the whole time so far
    assert first["time/eta"] == pytest.approx(32 / first["time/fps_now"])
    assert second["time/eta"] == 0.0
    assert "policy/initial_entropy_share" not in first


def test_the_start_of_a_policy_is_told_once():
    recorder = rows_of_training(make_model(A2C, n_steps=8), steps=96, log_interval=3)
    assert recorder.rows[0]["policy/initial_entropy_share"] > 0.99
    assert not any("policy/initial_entropy_share" in row for row in recorder.rows[1:])
    rows = rows_of_training(make_model(PPO, "Box"), steps=64).rows
    assert rows[0]["policy/initial_action_std"] == pytest.approx(1.0, rel=0.01)
    assert abs(rows[0]["policy/initial_action_mean"]) < 0.1


def test_evaluations_in_the_middle_of_a_rollout_have_no_statistics_of_it():
    eval_env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"]))
    evaluate = EvalCallback(eval_env, eval_freq=20, n_eval_episodes=1, verbose=0)
    recorder = rows_of_training(make_model(PPO), steps=96, callbacks=[evaluate])
    of_eval = [row for row in recorder.rows if "eval/mean_reward" in row]
    assert [row["time/vec_steps"] for row in of_eval] == [20, 40]
    assert of_eval[0]["time/progress"] == pytest.approx(40 / 96)
    for row in of_eval:
        assert not (ENV | ACTIONS | VALUES - {"policy/entropy"}) & set(row)
    assert all(set(row) >= ENV | VALUES for row in recorder.rows if "time/fps" in row and row not in of_eval)


def test_a_row_about_the_past_has_no_time_of_the_present():
    class Late(BaseCallback):
        def _on_step(self):
            if self.n_calls == 20:
                self.logger.record("eval/mean_reward", 1.0)
                self.logger.dump(32)
            return True

    recorder = rows_of_training(make_model(PPO), steps=64, callbacks=[Late()])
    (late,) = [row for row in recorder.rows if "eval/mean_reward" in row]
    assert not TIME & set(late)


def test_steps_to_threshold_are_told_from_the_row_that_reached_it():
    rows = rows_of_training(make_model(PPO, env=make_vec_env(Steady, 2)), steps=96, threshold=10).rows
    assert [row.get("rollout/steps_to_threshold") for row in rows[:3]] == [32, 32, 32]
    rows = rows_of_training(make_model(PPO, env=make_vec_env(Steady, 2)), steps=96, threshold=11).rows
    assert not any("rollout/steps_to_threshold" in row for row in rows)


def test_memory_does_not_grow_with_steps():
    def size_after(n_rollouts):
        model = make_model(PPOExt, n_steps=4, batch_size=8, n_epochs=1)
        metrics = Metrics(max_cost=1, histogram_seconds=0)
        recorder = record(model)
        model.learn(8 * n_rollouts, callback=metrics)
        assert len(recorder.rows) == n_rollouts + 1
        own = {
            name: value for name, value in vars(metrics).items() if name not in ("model", "locals", "globals", "_run")
        }
        return len(pickle.dumps(own))

    assert size_after(200) <= size_after(10) + 100


def test_expensive_statistics_are_in_few_rows_when_they_may_cost_little():
    recorder = rows_of_training(make_model(PPO), steps=640, max_cost=1e-6, histogram_seconds=1000)
    assert sum("policy/prob_max" in row for row in recorder.rows) == 1
    assert sum("env/obs_hist" in row for row in recorder.rows) == 1
    assert sum("env/obs_mean" in row for row in recorder.rows) == 20


def test_numbers_that_are_not_finite_are_told_and_do_not_stop_the_training():
    class Broken(Steady):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, math.inf if self._step == 3 else reward, *rest

    model = make_model(PPO, env=make_vec_env(Broken, 2), learning_rate=0.0)
    recorder = record(model)
    with pytest.raises(ValueError, match="invalid values"):  # what SB3 says
        model.learn(64, callback=Metrics(max_cost=1, histogram_seconds=0))
    assert recorder.rows[0]["env/reward_max"] == math.inf
    assert math.isnan(recorder.rows[0]["rollout/advantage_std"])
    assert np.isfinite(recorder.rows[0]["env/reward_hist"]).all()


def read_metrics(raw):
    return read_switch(MetricsOptions, raw, "metrics")


def test_what_a_config_says_becomes_a_callback():
    assert read_metrics(True) == MetricsOptions()
    assert read_metrics(False) is None
    config = read_metrics({"threshold": "4.75e2", "histograms": False, "max_cost": "1e-3"})
    assert config == MetricsOptions(threshold=475.0, histograms=False, max_cost=0.001)
    assert read_metrics(config) is config
    assert config.make_callback().options == config
    assert not any("hist" in name for row in rows_of_training(make_model(PPO), histograms=False).rows for name in row)
    without_network = rows_of_training(make_model(PPO), network=False).rows[0]
    assert not {"policy/prob_max", "policy/initial_entropy_share"} & set(without_network)


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ({"treshold": 1}, TypeError, "did you mean 'threshold'"),
        ({"histograms": "no"}, ValueError, "must be true or false"),
        ({"max_cost": 0}, ValueError, "above 0"),
        ({"threshold": "high"}, ValueError, "must be a number"),
        ({"threshold": "inf"}, ValueError, "must be a finite number"),
        ({"histogram_seconds": -1}, ValueError, "at least 0"),
        ("all", ValueError, "true, false or a mapping"),
    ],
)
def test_what_is_written_wrongly_gets_an_error_that_helps(written, error, message):
    with pytest.raises(error, match=message):
        read_metrics(written)


class _AsksNoDistribution(ActorCriticPolicy):
    """A user's policy, with what training needs and no more."""

    def get_distribution(self, obs):
        raise NotImplementedError("not needed for training")


def test_a_metric_that_raises_is_reported_once_and_the_others_go_on():
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"]), 2)
    model = PPO(_AsksNoDistribution, env, n_steps=16, batch_size=16, n_epochs=1, seed=0, device="cpu")
    with pytest.warns(UserWarning, match="not needed for training") as warned:
        rows = rows_of_training(model, steps=96).rows
    assert len({str(warning.message) for warning in warned}) == len(warned)
    assert model.num_timesteps == 96
    assert all("rollout/value_error" in row for row in rows if "time/fps" in row)


def test_a_source_of_rows_that_raises_ends_no_training():
    class Faulty(BaseCallback):
        def _on_training_start(self):
            RowStream.of(self.logger).add_source(lambda step, values: {"custom/share": 1 / 0})

        def _on_step(self):
            return True

    model = make_model(PPO)
    with pytest.warns(UserWarning, match="ZeroDivisionError") as warned:
        rows_of_training(model, steps=96, callbacks=[Faulty()])
    assert sum("ZeroDivisionError" in str(warning.message) for warning in warned) == 1
    assert model.num_timesteps == 96
