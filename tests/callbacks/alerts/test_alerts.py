"""Alerts in real trainings: counted, shown, sent on, summed up, and in time before a NaN."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.callbacks.alerts.callback import Alerts, TrainingDiverged
from sb3_ext.callbacks.alerts.engine import AlertCount
from sb3_ext.callbacks.alerts.rule import Rule
from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.callbacks.metrics.callback import Metrics

#: Fires at every row
ALWAYS = {"always": {"metric": "time/iterations", "above": 0, "advice": "Nothing to tune."}}


def alerts_in(folder):
    return [AlertCount(**alert) for alert in json.loads((folder / "alerts.json").read_text())]


class Written(KVWriter):
    """Keeps what a logger writes."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append({"step": step, **key_values})

    def close(self):
        pass


class Film(gym.Env):
    """Ten steps that nothing changes: all copies show the same."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._look(), {}

    def step(self, action):
        self._step += 1
        return self._look(), float(action), self._step >= 10, False, {}

    def _look(self):
        return np.array([np.cos(self._step), np.sin(self._step)], np.float32)


class Broken(Film):
    """The same, with what is broken in the fifth step."""

    what = "observation"

    def step(self, action):
        observation, reward, *others = super().step(action)
        if self._step == 5:
            return (
                (observation * np.nan, reward, *others)
                if self.what == "observation"
                else (observation, np.inf, *others)
            )
        return observation, reward, *others


class DictObservation(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = spaces.Dict({"film": env.observation_space})

    def observation(self, observation):
        return {"film": observation}


class BrokenReward(Broken):
    what = "reward"


def train(algorithm, env, total, callbacks, n_envs=2, **kwargs):
    """Rows of a training with these callbacks, and the model."""
    written = Written()
    model = algorithm("MlpPolicy", make_vec_env(env, n_envs, seed=0), seed=0, device="cpu", **kwargs)
    model.set_logger(Logger(folder=None, output_formats=[written]))
    try:
        model.learn(total, callback=callbacks, log_interval=1)
    finally:
        model.env.close()
    return written.rows, model


SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 2}


def test_alerts_are_counted_and_every_row_shows_them():
    alerts = Alerts(add=ALWAYS, verbose=0)
    rows, _ = train(PPOExt, "CartPole-v1", 64 * 6, alerts, **SMALL)
    on = [row["alert/always"] for row in rows if "time/iterations" in row]
    assert on == [1] * 6
    assert [row["alert/total"] for row in rows if "time/iterations" in row] == [1, 2, 3, 4, 5, 6]
    (count,) = [count for count in alerts.summary() if count.id == "always"]
    assert count == AlertCount("always", "time/iterations", 6, 1.0, 64, 384, "Nothing to tune.")


def test_where_an_alert_is_shown_is_not_known_to_the_next_training():
    alerts = Alerts(add=ALWAYS, verbose=0)
    train(PPOExt, "CartPole-v1", 64, alerts, **SMALL)
    assert alerts.run.alert_metrics == {"always": "time/iterations"}
    train(PPOExt, "CartPole-v1", 64, other := Alerts(verbose=0), **SMALL)
    assert other.run.alert_metrics == {}


def test_an_alert_that_is_over_is_0_and_its_share_falls():
    short = {"short": {"metric": "time/iterations", "below": 4}}
    alerts = Alerts(add=short, verbose=0)
    rows, _ = train(PPOExt, "CartPole-v1", 64 * 6, alerts, **SMALL)
    assert [row["alert/short"] for row in rows if "time/iterations" in row] == [1, 1, 1, 0, 0, 0]
    assert [count.share for count in alerts.summary() if count.id == "short"] == [0.5]


def test_a_rule_that_raises_is_reported_once_and_the_others_go_on(monkeypatch):
    def check(context, numbers):
        raise ZeroDivisionError("no rows")

    monkeypatch.setitem(RULES, "faulty", Rule("faulty", ("time/iterations",), "it raises", "", check))
    alerts = Alerts(add=ALWAYS, verbose=0)
    with pytest.warns(UserWarning, match="Alert faulty raised ZeroDivisionError: no rows. It is switched") as warned:
        rows, model = train(PPOExt, "CartPole-v1", 64 * 4, alerts, **SMALL)
    assert sum("faulty" in str(warning.message) for warning in warned) == 1
    assert model.num_timesteps == 64 * 4
    assert [row["alert/always"] for row in rows if "time/iterations" in row] == [1] * 4


def test_what_never_fired_is_not_in_the_row():
    rows, _ = train(PPOExt, "CartPole-v1", 64 * 3, Alerts(verbose=0), **SMALL)
    assert [name for row in rows for name in row if name.startswith("alert/")] == ["alert/total"] * len(rows)


def test_alerts_are_told_once_and_summed_up_at_the_end(capsys):
    train(PPOExt, "CartPole-v1", 64 * 6, Alerts(add=ALWAYS), **SMALL)
    printed = capsys.readouterr().out
    assert printed.count("Alert always after 64 steps") == 1
    summary = printed[printed.index("Alerts of this training") :]
    assert "always" in summary and "100%" in summary and "Nothing to tune." in summary


def test_a_listener_is_told_and_one_that_fails_ends_nothing():
    told = []

    def unreachable(*_):
        raise ConnectionError("no network")

    alerts = Alerts(add=ALWAYS, verbose=0)
    alerts.listeners += [unreachable, lambda *alert: told.append(alert)]
    with pytest.warns(UserWarning, match="'alert': ConnectionError: no network"):
        train(PPOExt, "CartPole-v1", 64 * 3, alerts, **SMALL)
    ((rule_id, title, text),) = told
    assert (rule_id, title) == ("always", "time/iterations is above 0")
    assert "Nothing to tune." in text


def test_the_run_folder_gets_a_file_for_the_report(tmp_path):
    alerts = Alerts(add=ALWAYS, folder=str(tmp_path), verbose=0)
    train(PPOExt, "CartPole-v1", 64 * 3, alerts, **SMALL)
    assert alerts_in(tmp_path) == alerts.summary()
    assert [path.name for path in tmp_path.iterdir()] == ["alerts.json"]


def test_it_can_be_closed_twice_and_used_again(capsys):
    alerts = Alerts(add=ALWAYS)
    for _ in range(2):
        train(PPOExt, "CartPole-v1", 64, alerts, **SMALL)
        alerts.close(KeyboardInterrupt())
    assert capsys.readouterr().out.count("Alerts of this training") == 2


@pytest.mark.parametrize(
    ("algorithm", "kwargs"),
    [
        (PPOExt, {**SMALL, "learning_rate": 1e20}),
        (PPO, {**SMALL, "learning_rate": 1e20}),
        (A2C, {"learning_rate": 1e30}),
        (A2CExt, {"learning_rate": 1e30}),
        (REINFORCE, {"n_steps": 64, "learning_rate": 1e20}),
    ],
)
def test_a_policy_that_is_nan_ends_training_before_torch_asserts(algorithm, kwargs, tmp_path, capsys):
    alerts = Alerts(folder=str(tmp_path))
    with pytest.raises(TrainingDiverged, match=r"NaN or Inf in the policy's .*learning_rate"):
        train(algorithm, "CartPole-v1", 20_000, [Metrics(), alerts], **kwargs)
    assert "Alert nan after" in capsys.readouterr().out
    assert "nan" in [count.id for count in alerts_in(tmp_path)]


def test_the_last_row_before_that_has_the_alert_and_the_update():
    written = Written()
    model = PPOExt("MlpPolicy", "CartPole-v1", seed=0, learning_rate=1e20, device="cpu", **SMALL)
    model.set_logger(Logger(folder=None, output_formats=[written]))
    with pytest.raises(FloatingPointError):
        model.learn(10_000, callback=Alerts(verbose=0))
    assert written.rows[-1]["alert/nan"] == 1
    assert "train/loss" in written.rows[-1]


def test_observations_that_are_nan_are_told_at_their_step():
    said = r"After 10 steps there is NaN or Inf in observations of environments 0, 1\. They come from the environment"
    with pytest.raises(TrainingDiverged, match=said):
        train(PPO, Broken, 100, Alerts(verbose=0), **SMALL)


def test_the_part_of_a_dict_observation_that_is_nan_is_named():
    """A DummyVecEnv gives an OrderedDict."""
    env = make_vec_env(Broken, 2, seed=0, wrapper_class=DictObservation)
    model = PPO("MultiInputPolicy", env, seed=0, device="cpu", **SMALL)
    with pytest.raises(TrainingDiverged, match="After 10 steps there is NaN or Inf in the observation 'film' of env"):
        model.learn(100, callback=Alerts(verbose=0))


@pytest.mark.parametrize("algorithm", [PPO, A2CExt, REINFORCE])
def test_rewards_that_are_nan_are_told_before_the_update(algorithm):
    model = algorithm("MlpPolicy", make_vec_env(BrokenReward, 2, seed=0), seed=0, device="cpu", n_steps=32)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    with pytest.raises(TrainingDiverged, match=r"there is NaN or Inf in rewards.* come from the environment"):
        model.learn(100, callback=Alerts(verbose=0))
    assert all(map(th.equal, before, model.policy.parameters()))


@pytest.mark.parametrize(("algorithm", "env"), [(DQN, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_off_policy_algorithms_that_are_nan_end_too(algorithm, env):
    with pytest.raises(TrainingDiverged, match=r"the policy's parameters .*learning_rate"):
        train(algorithm, env, 2000, Alerts(verbose=0), n_envs=1, learning_rate=1e20, learning_starts=50)


def test_nothing_is_left_in_the_optimizer():
    _, model = train(PPO, "CartPole-v1", 64, Alerts(verbose=0), **SMALL)
    assert not model.policy.optimizer._optimizer_step_post_hooks


def test_nan_of_an_environment_that_is_only_told_stays_one_fault_and_no_other_rule_speaks():
    alerts = Alerts(on_nan="warn", verbose=0)
    rows, _ = train(PPOExt, BrokenReward, 2000, [Metrics(), alerts], **SMALL)  # which does not assert
    (count,) = alerts.summary()
    assert count.id == "nan" and "no hyperparameter helps" in count.advice
    assert len(rows) <= 2000 // 64 + 5


def test_nan_can_be_told_without_an_end():
    alerts = Alerts(on_nan="warn", verbose=0)
    train(DQN, "CartPole-v1", 500, alerts, n_envs=1, learning_rate=1e20, learning_starts=50)
    assert "nan" in [count.id for count in alerts.summary()]


def test_entropy_collapse_is_found():
    alerts = Alerts(verbose=0)
    rows, _ = train(
        PPOExt,
        "Acrobot-v1",
        16_000,
        [Metrics(), alerts],
        n_envs=8,
        n_steps=32,
        batch_size=256,
        learning_rate=0.3,
    )
    collapsed = [row for row in rows if row.get("alert/entropy_collapse")]
    assert collapsed and all(row["policy/entropy"] < 0.1 for row in collapsed)


def test_identical_environments_are_found():
    alerts = Alerts(verbose=0)
    train(PPOExt, Film, 64 * 20, [Metrics(), alerts], **SMALL)
    assert "envs_identical" in [count.id for count in alerts.summary()]


@pytest.mark.parametrize(
    ("algorithm", "env", "kwargs"),
    [
        (PPO, "CartPole-v1", SMALL),
        (A2C, "Pendulum-v1", {"n_steps": 16}),
        (DQN, "CartPole-v1", {"learning_starts": 100}),
        (SAC, "Pendulum-v1", {"learning_starts": 100, "train_freq": 8}),
    ],
)
def test_stock_algorithms_are_judged_by_what_they_log(algorithm, env, kwargs):
    rows, _ = train(algorithm, env, 800, Alerts(verbose=0), **kwargs)
    assert all("alert/total" in row for row in rows)


def test_rows_of_an_evaluation_are_judged_by_what_they_have():
    evaluation = EvalCallback(make_vec_env("CartPole-v1", 1), eval_freq=32, n_eval_episodes=1, verbose=0)
    alerts = Alerts(add={"evaluated": {"metric": "eval/mean_reward", "above": 0}}, verbose=0)
    train(PPO, "CartPole-v1", 64 * 3, [evaluation, alerts], **SMALL)
    (count,) = [count for count in alerts.summary() if count.id == "evaluated"]
    assert (count.count, count.share) == (3, 1.0)


def test_training_goes_on_as_without_alerts():
    def parameters(callbacks):
        _, model = train(PPOExt, "CartPole-v1", 64 * 4, callbacks, **SMALL)
        return np.concatenate([value.detach().numpy().reshape(-1) for value in model.policy.parameters()])

    assert np.array_equal(parameters(Alerts(verbose=0)), parameters(None))


@pytest.mark.parametrize("action_space", ["Discrete", "MultiDiscrete", "MultiBinary", "Box"])
@pytest.mark.parametrize("algorithm", [PPOExt, REINFORCE])
def test_an_untrained_policy_of_ours_is_uniform(algorithm, action_space):
    from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv

    def env():
        return RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES[action_space])

    alerts = Alerts(verbose=0)
    extra = {} if algorithm is REINFORCE else {"batch_size": 32}
    rows, _ = train(algorithm, env, 64, [Metrics(), alerts], n_steps=32, **extra)
    initial = {name: value for row in rows for name, value in row.items() if name.startswith("policy/initial")}
    if action_space == "Box":
        assert abs(initial["policy/initial_action_mean"]) < 0.1
        assert initial["policy/initial_action_std"] == pytest.approx(1.0)
    else:
        assert initial["policy/initial_entropy_share"] > 0.99
    assert not [count.id for count in alerts.summary() if count.id.startswith("initial")]


@pytest.mark.parametrize(("low", "high", "rule_id"), [(0.0, 1.0, "initial_mean"), (-50.0, 50.0, "initial_std")])
def test_an_action_space_that_a_fresh_policy_does_not_fit_is_found(low, high, rule_id):
    def env():
        return gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), low, high)

    alerts = Alerts(verbose=0)
    train(PPOExt, env, 128, [Metrics(), alerts], **SMALL)
    assert rule_id in [count.id for count in alerts.summary()]
