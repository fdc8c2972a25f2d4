"""A password on the command line is in no file that a training writes or uploads."""

import argparse
import io
import sys
import zipfile
from pathlib import Path

import pytest
import rl_zoo3.train
from rl_zoo3 import exp_manager
from stable_baselines3 import PPO
from wandb_offline import offline

from sb3_ext.callbacks import Report, Tracking

PASSWORD = "correct-horse"
STORAGE = f"postgresql://me:{PASSWORD}@localhost/studies"
SECTION = """CartPole-v1:
  policy: MlpPolicy
  n_timesteps: 64
  n_steps: 32
  batch_size: 32
  ext: {table: false, alerts: false, metrics: false, threads: 1, report: {plots: false}, tracking: {mode: offline}}
"""


@pytest.fixture
def wandb_files(tmp_path):
    with offline(tmp_path) as folder:
        yield folder


def command_line(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["train.py", *words, "--storage", STORAGE])
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, *sys.argv])


def texts_in(folder):
    """All files, and those in zips."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield path.relative_to(folder), content
            if zipfile.is_zipfile(io.BytesIO(content)):
                with zipfile.ZipFile(path) as archive:
                    yield from ((path / name, archive.read(name)) for name in archive.namelist())


def files_with(folder, text):
    return [str(name) for name, content in texts_in(folder) if text.encode() in content]


def test_a_training_with_rl_zoo_keeps_no_password(tmp_path, wandb_files, monkeypatch):
    conf = tmp_path / "conf.yml"
    conf.write_text(SECTION, encoding="utf-8")
    words = f"--algo ppo_ext --env CartPole-v1 --conf-file {conf} -f {tmp_path} --eval-freq 32 --eval-episodes 1"
    command_line(monkeypatch, *words.split())
    rl_zoo3.train.train()
    assert not files_with(tmp_path, PASSWORD)
    masked = {Path(name).suffix for name in files_with(tmp_path, "postgresql://me:***@localhost")}
    assert masked >= {".md", ".yml", ".txt", ".wandb"}


def test_the_files_of_a_stock_run_are_masked_when_they_are_uploaded(tmp_path, wandb_files, monkeypatch):
    command_line(monkeypatch)
    run_folder = tmp_path / "run"
    (run_folder / "CartPole-v1").mkdir(parents=True)
    for name in ("args.yml", "config.yml", "command.txt"):
        (run_folder / "CartPole-v1" / name).write_bytes(f"storage: {STORAGE}\r\n".encode() + b"\xff")
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, device="cpu")
    model.save(run_folder / "best_model")
    with pytest.raises(ValueError), Tracking(str(run_folder)) as tracking, Report(run_folder, plots=False) as report:
        model.learn(32, callback=[report, tracking])
        model.save(run_folder / "best_model")
        model.learn(32, callback=[report, tracking])
        raise ValueError(STORAGE)
    own = {f"run/CartPole-v1/{name}" for name in ("args.yml", "config.yml", "command.txt")}
    assert set(files_with(tmp_path, PASSWORD)) == own


def test_a_run_that_rl_zoo_has_opened_is_masked(tmp_path, wandb_files, monkeypatch):
    import wandb

    monkeypatch.setattr(sys, "argv", ["train.py"])
    run = wandb.init(config={"storage": STORAGE})
    with Tracking(finish=False) as tracking:
        PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, device="cpu").learn(32, callback=tracking)
        assert run.config["storage"] == "postgresql://me:***@localhost/studies"


def test_errors_about_a_study_have_no_password(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db?password={PASSWORD}"
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(), "ppo_ext", "CartPole-v1", "logs", storage=storage, study_name="mine", trial_id=1
    )
    with pytest.raises(ValueError, match=r"There is no study 'mine' in .*password=\*\*\*"):
        manager.read_hyperparameters()
