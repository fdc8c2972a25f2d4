"""One threshold for a whole training: set once, read by all."""

import json

import pytest
import rl_zoo3.train
import yaml
from stable_baselines3 import PPO
from zoo_in_process import train

from sb3_ext.callbacks import Alerts, Evaluation, Metrics
from sb3_ext.zoo.options import read_ext

SECTION = {"policy": "MlpPolicy", "n_envs": 2, "n_steps": 64, "batch_size": 64, "n_epochs": 1}
EXT = {"threshold": 5, "evaluation": {"every": 256, "episodes": 1, "stop": "eval", "window": 1}}


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A training that solves CartPole at once, as its threshold is 5: its folder, and its alerts."""
    folder = tmp_path_factory.mktemp("solved")
    file = folder / "section.yml"
    file.write_text(yaml.safe_dump({"CartPole-v1": {**SECTION, "ext": EXT}}), encoding="utf-8")
    callbacks = []
    with pytest.MonkeyPatch.context() as patch:
        learn = rl_zoo3.train.ExperimentManager.learn
        patch.setattr(
            rl_zoo3.train.ExperimentManager,
            "learn",
            lambda self, model: (callbacks.extend(self.callbacks), learn(self, model)),
        )
        train(f"--algo ppo_ext --env CartPole-v1 -n 2048 --seed 1 --conf-file {file}", folder)
    (alerts,) = [callback for callback in callbacks if isinstance(callback, Alerts)]
    return folder / "logs" / "ppo_ext" / "CartPole-v1_1", alerts


def test_it_ends_the_training(solved):
    run = json.loads((solved[0] / "run.json").read_text())
    assert run["steps"] == 256 and "the threshold 5" in run["stop_reason"]


def test_it_is_a_fact_of_the_run_for_trackers_and_plots(solved):
    run = json.loads((solved[0] / "run.json").read_text())
    assert (run["threshold"], run["env_threshold"]) == (5, 475)


def test_metrics_measure_sample_efficiency_by_it(solved):
    rows = [json.loads(line) for line in (solved[0] / "progress.json").read_text().splitlines()]
    assert next(row["rollout/steps_to_threshold"] for row in rows if "rollout/ep_rew_mean" in row) <= 256


def test_alerts_judge_the_score_by_it(solved):
    assert solved[1]._engine.context.facts.threshold == 5


def test_the_report_compares_the_score_with_it(solved):
    assert "at or above the threshold of 5**" in (solved[0] / "report.md").read_text()


@pytest.mark.parametrize("topic", ["evaluation", "metrics", "alerts", "report"])
def test_a_topic_has_none_of_its_own(topic):
    with pytest.raises(ValueError, match=rf"{topic}: threshold is for all topics: set ext: {{threshold"):
        read_ext({topic: {"threshold": 100}})


def test_in_python_one_callback_may_give_it_to_all():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    metrics, evaluation = Metrics(), Evaluation(every=1000, threshold=5, verbose=0)
    model.learn(64, callback=[metrics, evaluation])
    assert metrics.run.threshold == evaluation.threshold == 5


def test_callbacks_with_different_thresholds_are_an_error():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    with pytest.raises(ValueError, match=r"one threshold, and was given \[5.0, 10.0\]"):
        model.learn(64, callback=[Metrics(threshold=10), Evaluation(every=1000, threshold=5)])
