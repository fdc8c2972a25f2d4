"""A training that is interrupted and resumed ends with the same metrics, counts and files as one in one go."""

import csv
import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from interrupted_training import KILLED_AT, OF_THE_CLOCK, comparable, train
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    EveryNTimesteps,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sb3_ext import A2CExt
from sb3_ext.callbacks import Evaluation
from sb3_ext.runs.callback_states import collect_states, continued_log_interval, restore_states


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    folders = [tmp_path_factory.mktemp(name) for name in ("one_go", "resumed")]
    states = [train(folder, interrupted) for folder, interrupted in zip(folders, (False, True), strict=True)]
    return SimpleNamespace(folders=folders, states=[dict(found) for found in states])


CALLBACKS = [
    "stable_baselines3.common.callbacks.EvalCallback",
    "stable_baselines3.common.callbacks.StopTrainingOnNoModelImprovement",
    "stable_baselines3.common.callbacks.StopTrainingOnMaxEpisodes",
    "stable_baselines3.common.callbacks.EveryNTimesteps",
    "stable_baselines3.common.callbacks.CheckpointCallback",
    "sb3_ext.callbacks.evaluation.callback.Evaluation",
    "sb3_ext.callbacks.metrics.episode_metrics.EpisodeMetrics",
    "sb3_ext.callbacks.training_progress.TrainingProgress",
    "sb3_ext.callbacks.save_normalization.SaveNormalization",
    "sb3_ext.callbacks.table.log_files.LogFiles",
    "sb3_ext.callbacks.metrics.callback.Metrics",
    "sb3_ext.callbacks.table.callback.Table",
    "sb3_ext.callbacks.alerts.callback.Alerts",
    "sb3_ext.callbacks.checkpoints.callback.Checkpoints",
    "sb3_ext.callbacks.report.Report",
    "sb3_ext.callbacks.observation_scale.WarnObservationScale",
    "interrupted_training.CountEpisodes",
    "training",
]


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_callback_continues_where_it_was(trainings, name):
    one_go, resumed = (comparable(states[name]) for states in trainings.states)
    assert one_go == resumed


def test_rows_continue_in_the_same_file(trainings):
    one_go, resumed = (
        list(csv.DictReader((folder / "progress.csv").read_text().splitlines())) for folder in trainings.folders
    )
    assert len(one_go) == len(resumed) > 4
    for row, other in zip(one_go, resumed, strict=True):
        assert {**row, **dict.fromkeys(OF_THE_CLOCK)} == {**other, **dict.fromkeys(OF_THE_CLOCK)}


def test_json_rows_continue_in_the_same_file(trainings):
    steps = [
        [json.loads(line).get("time/total_timesteps") for line in (folder / "progress.json").read_text().splitlines()]
        for folder in trainings.folders
    ]
    assert steps[0] == steps[1]


def test_evaluations_continue_in_the_same_file(trainings):
    one_go, resumed = (np.load(folder / "evaluations.npz") for folder in trainings.folders)
    for name in ("timesteps", "results", "ep_lengths"):
        np.testing.assert_array_equal(one_go[name], resumed[name])


def test_alerts_are_counted_on(trainings):
    one_go, resumed = ((folder / "alerts.json").read_text() for folder in trainings.folders)
    assert json.loads(one_go) == json.loads(resumed)
    assert json.loads(one_go)[-1]["first_step"] < KILLED_AT


class Silent(BaseCallback):
    def _on_step(self):
        return True


class Unpicklable(Silent):
    def state(self):
        return lambda: None

    def restore(self, state):
        raise AssertionError("it has none")


def start(*callbacks, model=None, algorithm=PPO, **kwargs):
    """A training that has just begun."""
    model = model or algorithm("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    _, top = model._setup_learn(32, CallbackList(list(callbacks)), **kwargs)
    top.on_training_start({"callback": top, "total_timesteps": model._total_timesteps}, {})
    return top


def test_a_callback_that_was_added_or_removed_is_named():
    states = collect_states(start(Silent(), StopTrainingOnMaxEpisodes(5)))
    with pytest.warns() as warned:
        restore_states(start(Silent(), EveryNTimesteps(5, Silent())), states)
    assert [str(warning.message) for warning in warned] == [
        "Resume: EveryNTimesteps, Silent starts afresh: the interrupted training did not have it.",
        "Resume: StopTrainingOnMaxEpisodes is not used now.",
    ]


def test_a_state_that_cannot_be_pickled_is_left_out():
    top = start(Unpicklable())
    with pytest.warns(UserWarning, match="The state of .*Unpicklable raised"):
        states = collect_states(top)
    pickle.dumps(states)


def test_a_callback_that_cannot_be_restored_starts_afresh():
    class Raising(Silent):
        def state(self):
            return 1

        def restore(self, state):
            raise RuntimeError("not that one")

    states = collect_states(start(Raising()))
    with pytest.warns(UserWarning, match="Raising starts afresh: restore raised RuntimeError: not that one"):
        restore_states(start(Raising()), states)


def test_a_progress_bar_continues(capsys):
    def bar_of(top):
        return next(callback.pbar for callback in top.callbacks if isinstance(callback, ProgressBarCallback))

    first = start(ProgressBarCallback())
    model = first.model
    model.num_timesteps = 24
    bar_of(first).update(24)
    states = collect_states(first)
    first.on_training_end()
    model, second = None, start(ProgressBarCallback(), model=first.model, reset_num_timesteps=False)
    restore_states(second, states)
    bar = bar_of(second)
    second.on_training_end()
    assert (bar.n, bar.total) == (24, 56)


def test_tensorboard_forgets_what_was_logged_after_the_step(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, device="cpu")

    def log(steps, states=None):
        logger = Logger(None, [TensorBoardOutputFormat(str(tmp_path))])
        model.set_logger(logger)
        top = start(model=model, reset_num_timesteps=False)
        if states is not None:
            restore_states(top, states)
        for step in steps:
            logger.record("a", step)
            logger.dump(step)
        logger.close()
        return collect_states(top)

    model.num_timesteps = 8
    states = log([0, 8, 16, 24])
    log([16], states)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("a")] == [0, 8, 16]


def test_an_evaluation_that_was_running_is_not_lost(tmp_path):
    """The process of a killed training is gone with its snapshot, which was still to be evaluated."""

    def evaluation():
        return Evaluation(every=64, episodes=1, process=True, folder=tmp_path, verbose=0)

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    first, second = evaluation(), evaluation()
    top = start(first, model=model)
    model.num_timesteps = 8
    first._request(first._worker)
    states = pickle.loads(pickle.dumps(collect_states(top)))
    first.close(RuntimeError("killed"))
    model.num_timesteps = 16
    restore_states(start(second, model=model, reset_num_timesteps=False), states)
    assert second._report_late(*second._worker.collect(60.0))
    second.close()
    assert second.evaluations_timesteps == [8]


@pytest.mark.parametrize(("algorithm", "default"), [(PPO, 1), (A2C, 100), (A2CExt, 100)])
def test_the_default_interval_of_rows_is_the_algorithms(algorithm, default):
    model = algorithm("MlpPolicy", "CartPole-v1", device="cpu")
    interval = continued_log_interval(model, [("training", {"iterations": 30})])
    assert interval == default
    assert 70 % interval == 0
    assert (30 % interval == 0) == (default == 1)
