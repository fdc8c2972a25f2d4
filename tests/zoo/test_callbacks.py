"""Which callbacks a training has, by its ``ext:`` and the command line."""

import argparse
import json
from pathlib import Path
from typing import ClassVar

import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
from rl_zoo3 import exp_manager
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext.callbacks.alerts.callback import Alerts
from sb3_ext.callbacks.checkpoints.callback import Checkpoints
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.metrics.callback import Metrics
from sb3_ext.callbacks.report import Report
from sb3_ext.callbacks.table.callback import Table
from sb3_ext.callbacks.table.log_files import LogFiles
from sb3_ext.callbacks.tracking.callback import Tracking
from sb3_ext.common.options import Count, Options, Switch, read_options
from sb3_ext.zoo.callbacks import build_callbacks
from sb3_ext.zoo.env_factory import env_factory
from sb3_ext.zoo.options import ExtOptions

SMALL = {"n_envs": 2, "n_steps": 8, "batch_size": 16}
OURS = {Alerts, Checkpoints, Evaluation, Table, LogFiles, Metrics, Report}


def set_up(tmp_path, ext=None, algo="ppo_ext", env_id="CartPole-v1", track=False, **section):
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(num_threads=1, track=track),
        algo,
        env_id,
        str(tmp_path),
        n_timesteps=64,
        eval_freq=32,
        save_freq=48,
        n_eval_episodes=3,
        log_interval=-1,
        hyperparams={**SMALL, **section, **({} if ext is None else {"ext": ext})},
        verbose=0,
    )
    model, _ = manager.setup_experiment()
    return manager, model


def kinds(manager):
    return {type(callback) for callback in manager.callbacks}


def the(manager, kind):
    (callback,) = [callback for callback in manager.callbacks if isinstance(callback, kind)]
    return callback


@pytest.mark.parametrize(
    ("ext", "missing"),
    [
        ({}, set()),
        ({"alerts": False}, {Alerts}),
        ({"table": False}, {Table}),
        ({"metrics": False}, {Metrics}),
        ({"report": False}, {Report}),
        ({"metrics": False, "report": False}, {Metrics, Report, LogFiles}),
    ],
)
def test_our_algorithms_have_all_that_is_not_switched_off(tmp_path, ext, missing):
    manager, _ = set_up(tmp_path, ext)
    assert kinds(manager) & OURS == OURS - missing
    assert not kinds(manager) & {EvalCallback, CheckpointCallback, Tracking}


def test_evaluation_and_checkpoints_are_those_of_rl_zoo_where_ours_are_switched_off(tmp_path):
    manager, _ = set_up(tmp_path, {"evaluation": False, "checkpoints": False})
    assert {EvalCallback, CheckpointCallback} <= kinds(manager)
    assert not {Evaluation, Checkpoints} & kinds(manager)


def test_stock_algorithms_have_only_what_is_switched_on(tmp_path):
    manager, _ = set_up(tmp_path / "plain", algo="ppo")
    assert not kinds(manager) & OURS and {EvalCallback, CheckpointCallback} <= kinds(manager)
    manager, _ = set_up(tmp_path / "asked", {"alerts": True}, algo="ppo")
    assert kinds(manager) & OURS == {Alerts} and {EvalCallback, CheckpointCallback} <= kinds(manager)


def test_the_command_lines_frequencies_are_kept(tmp_path):
    manager, model = set_up(tmp_path)
    model.learn(64, callback=manager.callbacks)
    manager.callbacks[0].on_training_end()
    evaluation = the(manager, Evaluation)
    assert evaluation.evaluations_timesteps == [32, 64]
    assert [len(rewards) for rewards in evaluation.evaluations_results] == [3, 3]
    assert [path.name for path in tmp_path.glob("ppo_ext/*/rl_model_*.zip")] == ["rl_model_48_steps.zip"]


@pytest.mark.parametrize(("ext", "track"), [({"tracking": True}, False), ({}, True)])
def test_tracking_knows_the_algorithm_and_the_environment(tmp_path, monkeypatch, ext, track):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    manager, model = set_up(tmp_path, ext, track=track)
    manager.learn(model)
    written = json.loads((Path(manager.save_path) / "tracking.json").read_text())
    assert (written["algo"], written["env_id"]) == ("ppo_ext", "CartPole-v1")


def test_a_run_that_shall_not_be_tracked_is_not(tmp_path):
    manager, _ = set_up(tmp_path, {"tracking": False}, track=True)
    assert Tracking not in kinds(manager)


class Demo(BaseCallback):
    """A new topic: this callback, its options, and a field of ``ext:``."""

    def __init__(self, options, verbose):
        super().__init__(verbose)
        self.options = options

    def _on_step(self):
        return True


class DemoOptions(Options):
    callback: ClassVar[str] = f"{__name__}.Demo"
    size: Count = 3


class ExtWithDemo(ExtOptions):
    demo: Switch[DemoOptions] = None


def test_a_new_field_of_ext_is_all_that_a_new_callback_needs():
    options = read_options(ExtWithDemo, {"demo": {"size": 5}}, "ext")
    (demo,) = [callback for callback in build_callbacks([], options, verbose=1) if isinstance(callback, Demo)]
    assert (demo.options.size, demo.verbose) == (5, 1)
    assert not any(isinstance(c, Demo) for c in build_callbacks([], ExtWithDemo(), verbose=1))


def test_an_agent_with_masks_is_evaluated_with_them(tmp_path):
    wrapper = "sb3_ext.wrappers.ActionMaskFromInfo"
    manager, _ = set_up(tmp_path, algo="ppo_mask_ext", env_id="Taxi-v4", env_wrapper=wrapper)
    assert the(manager, Evaluation)._use_masks


def test_environments_for_another_process_are_made_as_those_of_evaluation(tmp_path):
    manager, _ = set_up(tmp_path, normalize=True, env_kwargs={"sutton_barto_reward": True})
    files = sorted(tmp_path.rglob("*"))
    env = env_factory(manager)()
    assert type(env.unwrapped) is DummyVecEnv and env.num_envs == 1
    assert (env.training, env.norm_reward) == (False, False)
    assert env.get_attr("spec")[0].kwargs["sutton_barto_reward"] is True
    assert sorted(tmp_path.rglob("*")) == files, "no file of Monitor's"
