"""When a report is written, whatever ends a training, and what a config may say of it."""

import json
import subprocess
import sys

import pytest
from small_training import TINY, make_model
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext.callbacks.report import Report, ReportOptions
from sb3_ext.common.options import read_switch
from sb3_ext.runs.report.report import make_report


class Fails(BaseCallback):
    def __init__(self, error):
        super().__init__()
        self._error = error

    def _on_step(self):
        if self.num_timesteps >= 300:
            raise self._error
        return True


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (KeyboardInterrupt(), "interrupted", "**Training was interrupted** after 300 steps of 2,000"),
        (ValueError("no more"), "failed", "**Training failed** after 300 steps of 2,000: `ValueError: no more`"),
    ],
    ids=["ctrl-c", "error"],
)
def test_a_training_that_was_cut_off_has_a_report_that_says_so(tmp_path, error, state, said):
    model = make_model(tmp_path, **TINY)
    with pytest.raises(type(error)), Report(plots=False) as report:
        model.learn(2000, callback=[Fails(error), report])
    assert json.loads((tmp_path / "run.json").read_text())["state"] == state
    assert said in (tmp_path / "report.md").read_text()
    assert not (tmp_path / "plots").exists()


def test_without_an_error_a_training_that_did_not_end_was_interrupted(tmp_path):
    """RL Zoo keeps Ctrl-C to itself."""
    report = Report(tmp_path, plots=False)
    with pytest.raises(KeyboardInterrupt):
        make_model(tmp_path, **TINY).learn(2000, callback=[Fails(KeyboardInterrupt()), report])
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "running"
    assert "**Training has not ended**" in make_report(tmp_path)
    report.close()
    written = (tmp_path / "report.md").stat().st_mtime_ns
    report.close()
    assert "interrupted" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.md").stat().st_mtime_ns == written


def test_rl_zoo_may_say_that_a_training_has_ended_which_it_has_not(tmp_path):
    """Its first callback is told so after Ctrl-C too."""
    report = Report(tmp_path, plots=False)
    with pytest.raises(KeyboardInterrupt):
        make_model(tmp_path, **TINY).learn(2000, callback=[Fails(KeyboardInterrupt()), report])
    report.on_training_end()
    report.close()
    assert "**Training was interrupted** after 300 steps" in (tmp_path / "report.md").read_text()


def test_where_nobody_closes_it_the_report_is_written_when_python_ends(tmp_path):
    script = f"""
import torch
torch.set_num_threads(1)
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EventCallback
from sb3_ext.callbacks.report import Report
class Fails(EventCallback):
    def _on_step(self):
        raise ValueError("in the middle")
PPO("MlpPolicy", "CartPole-v1", n_steps=64).learn(64, callback=[Report({str(tmp_path)!r}), Fails()])
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 1 and "ValueError: in the middle" in process.stderr
    assert "**Training failed**" in (tmp_path / "report.md").read_text()
    assert "`ValueError: in the middle`" in (tmp_path / "report.md").read_text()


def test_a_training_that_a_callback_ends_is_told_from_one_that_ran_its_steps(tmp_path):
    class Stops(BaseCallback):
        def _on_step(self):
            return self.num_timesteps < 200

    make_model(tmp_path, **TINY).learn(2000, callback=[Stops(), Report(plots=False, verbose=1)])
    assert "Training finished after 200 steps of 2,000 (a callback ended it)." in (tmp_path / "report.md").read_text()


def test_a_report_that_cannot_be_written_is_a_warning(tmp_path):
    report = Report(tmp_path / "run", plots=False)
    (tmp_path / "run" / "report.md").mkdir(parents=True)
    with pytest.warns(UserWarning, match="There is no report in"):
        make_model(tmp_path, **TINY).learn(128, callback=report)


def test_without_any_folder_there_is_a_warning_and_no_report():
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1"), **TINY)
    with pytest.warns(UserWarning, match="Report needs a folder"):
        model.learn(64, callback=Report())


def test_the_threshold_of_a_config_goes_before_that_of_the_environment(tmp_path):
    make_model(tmp_path, **TINY).learn(256, callback=Report(plots=False, threshold=1.0))
    report = (tmp_path / "report.md").read_text()
    assert "at or above the threshold of 1**" in report
    assert "at or above the threshold of 3**" in make_report(tmp_path, threshold=3)


@pytest.mark.parametrize(
    ("written", "config"),
    [
        (True, ReportOptions()),
        (False, None),
        (None, None),
        ({}, ReportOptions()),
        ({"threshold": "2e2", "plots": False}, ReportOptions(plots=False, threshold=200.0)),
        ({"charts": "train/loss"}, ReportOptions(charts=("train/loss",))),
        ({"charts": ["train/loss", "train/std"]}, ReportOptions(charts=("train/loss", "train/std"))),
    ],
)
def test_a_config_is_read(written, config):
    assert read_switch(ReportOptions, written, "report") == config


@pytest.mark.parametrize(
    ("written", "error", "said"),
    [
        ({"plot": False}, TypeError, "did you mean 'plots'"),
        ({"plots": "no"}, ValueError, "must be true or false"),
        ({"threshold": "high"}, ValueError, "must be a number"),
        ({"threshold": True}, ValueError, "must be a number"),
        ({"charts": 3}, ValueError, "charts=3 must be a list"),
        ("yes", ValueError, "must be true, false or a mapping"),
    ],
)
def test_a_mistake_in_a_config_is_told(written, error, said):
    with pytest.raises(error, match=said):
        read_switch(ReportOptions, written, "report")
