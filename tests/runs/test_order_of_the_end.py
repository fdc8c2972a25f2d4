"""What happens at the end of a training, in its order: rows, files, prints, and the run on W&B."""

import argparse
import os
import re
import sys
from pathlib import Path

import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
import wandb
from rl_zoo3 import exp_manager
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import HumanOutputFormat, KVWriter, Logger
from wandb.sdk.lib.noop_run import NoopRun

from sb3_ext import PPOExt
from sb3_ext.callbacks.alerts.callback import Alerts
from sb3_ext.callbacks.checkpoints.callback import Checkpoints
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.metrics.callback import Metrics
from sb3_ext.callbacks.report import Report
from sb3_ext.callbacks.table.callback import Table
from sb3_ext.callbacks.table.log_files import LogFiles
from sb3_ext.callbacks.tracking.callback import Tracking

STEPS = 64
#: How a printed line begins, and what it is called here
LINES = {
    r"Eval num_timesteps": "says: evaluation",
    r"Solved": "says: solved",
    r"Saving to": "says: final model",
    r"[\d,]+ steps ": "says: line of the table",
    r"\| +time/": "says: SB3's table",
    r"No alerts": "says: summary of alerts",
    r"Alerts of this training": "says: summary of alerts",
    r"Report:": "says: report",
}


class Record(list):
    """Events since :meth:`start`, without repetitions."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self._is_on = folder, False
        self._write = sys.stdout.write

    def start(self):
        self._is_on = True

    def note(self, event):
        if self._is_on and event not in self[-1:]:
            self.append(event)

    def note_line(self, text):
        for line in text.splitlines():
            for pattern, event in LINES.items():
                if re.match(pattern, line):
                    self.note(event)
        return self._write(text)

    def note_file(self, path):
        name = os.path.relpath(path, self.folder)
        # When the state for a resume is written depends on the time that it takes
        if name != "resume.zip" and not any(part.startswith(".") for part in Path(name).parts):
            self.note(f"writes {name}")


records = []


def audit(event, args):
    if not records or not (event == "os.rename" or (event == "open" and isinstance(args[1], str))):
        return
    path = args[1] if event == "os.rename" else args[0]
    if event == "os.rename" or set(args[1]) & set("wax+"):
        if isinstance(path, str | os.PathLike) and os.path.isabs(path):
            records[-1].note_file(path)


sys.addaudithook(audit)


@pytest.fixture
def record(tmp_path, monkeypatch):
    record = Record(tmp_path)
    monkeypatch.setattr(sys.stdout, "write", record.note_line)
    finish = NoopRun.finish
    monkeypatch.setattr(NoopRun, "finish", lambda run, exit_code: [record.note(f"W&B ends: {exit_code}"), finish(run)])
    records.append(record)
    yield record
    records.clear()
    wandb.teardown()  # it reads the environment once in a process


class Rows(KVWriter):
    def __init__(self, record):
        self._record = record

    def write(self, key_values, key_excluded, step=0):
        self._record.note("row of an evaluation" if "eval/step" in key_values else "row")

    def close(self):
        """Nothing is open."""


class Watch(BaseCallback):
    """Starts a record with the last step, and may raise then."""

    def __init__(self, record, error=None):
        super().__init__()
        self._record, self._error = record, error

    def _on_training_start(self):
        self.logger.output_formats.append(Rows(self._record))

    def _on_step(self):
        if self.num_timesteps >= STEPS:
            self._record.start()
            if self._error is not None:
                raise self._error
        return True


def train_with_zoo(record, error=None, algo="ppo_ext", threshold=None, **evaluation):
    ext = {
        "threshold": threshold,
        "evaluation": {"every": 1000, "episodes": 1, "final": True, **evaluation},
        "checkpoints": {"table": False, "video": False},
        "metrics": True,
        "alerts": True,
        "table": {"every_seconds": 0},
        "report": {"plots": False},
        "tracking": {"mode": "disabled", "upload_mb": 0},
    }
    hyperparams = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "policy": "MlpPolicy", "ext": ext}
    settings = {"n_timesteps": STEPS, "hyperparams": hyperparams, "verbose": 1, "log_interval": -1, "save_freq": 1000}
    arguments = argparse.Namespace(num_threads=1)
    manager = exp_manager.ExperimentManager(arguments, algo, "CartPole-v1", str(record.folder), **settings)
    model, _ = manager.setup_experiment()
    record.folder = Path(manager.save_path).resolve()
    manager.callbacks.insert(0, Watch(record, error))
    try:
        manager.learn(model)
        manager.save_trained_model(model)
    except ValueError as raised:
        assert raised is error
    return list(record)


EVALUATION = [
    "writes evaluations.npz",
    "says: evaluation",
    "says: line of the table",
    "row of an evaluation",
    "writes progress.csv",
    "writes best_model.zip",
    "writes checkpoints/best_model.json",
]
FINAL_MODEL = ["says: final model", "writes CartPole-v1.zip"]
REST = [
    "writes last_model.zip",
    "writes checkpoints/last_model.json",
    "writes alerts.json",
    "says: summary of alerts",
    "writes run.json",
    "writes report.md",
    "says: report",
    "writes dashboard.json",
]


@pytest.mark.parametrize("algo", ["ppo_ext", "ppo"])
def test_a_training_of_rl_zoo_that_is_complete(record, algo):
    last_row = ["says: line of the table", "row"]
    assert train_with_zoo(record, algo=algo) == [*last_row, *FINAL_MODEL, *EVALUATION, *REST, "W&B ends: 0"]


def test_a_training_of_rl_zoo_that_is_stopped_early(record):
    stopped = train_with_zoo(record, every=STEPS, threshold=1, stop="eval", window=1)
    evaluation = [*EVALUATION[:2], "writes run.json", *EVALUATION[2:]]  # a run that is killed has a score
    assert stopped == [*evaluation, "says: solved", *FINAL_MODEL, *REST, "W&B ends: 0"]


def test_a_training_of_rl_zoo_that_is_interrupted(record):
    assert train_with_zoo(record, KeyboardInterrupt()) == [*FINAL_MODEL, *REST, "W&B ends: 255"]


def test_a_training_of_rl_zoo_that_fails(record):
    assert train_with_zoo(record, ValueError("no more")) == [*REST, "W&B ends: 1"]


ROW = ["says: SB3's table", "row"]
#: How each callback is made, and all that happens in a training with it alone. SB3 itself writes two rows
ALONE = {
    "evaluation": (
        lambda folder: Evaluation(every=1000, episodes=1, final=True, folder=folder),
        [*ROW, *ROW, *EVALUATION[:2], "says: SB3's table", "row of an evaluation", "writes best_model.zip"],
    ),
    "checkpoints": (
        lambda folder: Checkpoints(str(folder), table=False, video=False),
        [
            "writes run.json",
            *ROW,
            *ROW,
            "writes last_model.zip",
            "writes checkpoints/last_model.json",
            "writes run.json",
        ],
    ),
    "metrics": (lambda folder: Metrics(), [*ROW, *ROW, *ROW]),
    "alerts": (
        lambda folder: Alerts(folder=str(folder)),
        [*ROW, *ROW, *ROW, "writes alerts.json", "says: summary of alerts"],
    ),
    "table": (lambda folder: Table(every_seconds=0), ["says: line of the table", "row"] * 2),
    "log files": (
        lambda folder: LogFiles(str(folder)),
        ["writes progress.csv", "writes progress.json", *ROW, "writes progress.csv", *ROW, "writes progress.csv"],
    ),
    "report": (
        lambda folder: Report(folder, plots=False),
        ["writes run.json", *ROW, *ROW, *ROW, "writes run.json", "writes report.md", "says: report"],
    ),
    "tracking": (
        lambda folder: Tracking(str(folder), mode="disabled", upload_mb=0),
        ["writes tracking.json", *ROW, *ROW, *ROW, "writes dashboard.json", "W&B ends: 0"],
    ),
}


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
@pytest.mark.parametrize(("make", "events"), ALONE.values(), ids=ALONE)
def test_a_training_in_python_with_one_callback(record, algorithm, make, events):
    model = algorithm("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=0, verbose=1)
    model.set_logger(Logger(None, [HumanOutputFormat(sys.stdout), Rows(record)]))
    record.start()
    model.learn(STEPS, callback=make(record.folder))
    assert list(record) == events
