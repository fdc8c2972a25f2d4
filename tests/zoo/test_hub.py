"""RL Zoo's own commands for the Hugging Face Hub, run as people run them, against a stand-in for the Hub."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest
import torch as th
import yaml
from hub_server import LocalHub
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import DummyVecEnv
from zoo_in_process import train

from sb3_ext.zoo.hub import hub_upload, patch_replay_video

ENV = "CartPole-v1"
REPO = f"me/ppo_ext-{ENV}"
STOCK_REPO = f"me/ppo-{ENV}"


def run_zoo(command: str, folder: Path, hub: LocalHub, may_fail: bool = False) -> str:
    """
    :param command: one of RL Zoo's, with its arguments
    :param folder: where to run it; the client's cache goes there as well
    :return: all that it printed
    """
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    ours = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(folder / "hf_home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": "hf_dummy",
        "NO_PROXY": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "PATH": str(Path(sys.executable).parent),  # where there is no ffmpeg
        "TRUST_REMOTE_CODE": "True",
    }
    result = subprocess.run(
        [sys.executable, "-m", *shlex.split(f"rl_zoo3.{command}")],
        cwd=folder,
        env={**outside, **ours},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert may_fail or result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def hub() -> Iterator[LocalHub]:
    with LocalHub() as server:
        yield server


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where RL Zoo put an agent without normalisation."""
    folder = tmp_path_factory.mktemp("trained")
    train(f"--algo ppo_ext --env {ENV} -n 256 --eval-freq -1 --seed 1 -f logs", folder)
    return folder / "logs"


@pytest.fixture(scope="module")
def pushed(hub: LocalHub, logs: Path) -> dict[str, bytes]:
    """The files of the agent's repository."""
    run_zoo(f"push_to_hub --algo ppo_ext --env {ENV} -f {logs}/ -orga me -n 60", logs.parent, hub)
    return hub.repos[REPO]


@pytest.fixture(scope="module")
def stock_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where RL Zoo put a stock agent with normalisation."""
    folder = tmp_path_factory.mktemp("stock")
    params = "-params normalize:True n_envs:1 n_steps:128"
    train(f"--algo ppo --env {ENV} -n 256 --eval-freq -1 -f logs {params}", folder)
    return folder / "logs"


@pytest.fixture(scope="module")
def stock_upload(hub: LocalHub, stock_logs: Path) -> str:
    """What the upload of the stock agent printed; there are no frames for a video, and an older video on the Hub."""
    hub.repos[STOCK_REPO] = {".gitattributes": b"", "replay.mp4": b"of an older agent"}
    command = f"push_to_hub --algo ppo --env {ENV} -f {stock_logs}/ -orga me --env-kwargs render_mode:None"
    return run_zoo(command, stock_logs.parent, hub)


def policy_of(path: Path) -> dict[str, th.Tensor]:
    _, params, _ = load_from_zip_file(path, load_data=False, device="cpu")
    return params["policy"]


def test_a_trained_agent_arrives_with_its_card_and_video(pushed):
    assert {f"ppo_ext-{ENV}.zip", "config.yml", "args.yml"} <= pushed.keys()
    assert pushed["replay.mp4"][4:8] == b"ftyp"

    card = yaml.safe_load(pushed["README.md"].decode().split("---\n")[1])
    (result,) = card["model-index"][0]["results"]
    scores = json.loads(pushed["results.json"])
    assert ENV in card["tags"]
    assert result["dataset"]["name"] == ENV
    assert result["metrics"][0]["type"] == "mean_reward"
    assert result["metrics"][0]["value"] == f"{scores['mean_reward']:.2f} +/- {scores['std_reward']:.2f}"


def test_the_card_of_our_agent_says_what_to_install(pushed):
    card = pushed["README.md"].decode()
    assert "pip install sb3-ext" in card and "pip install rl_zoo3" not in card
    assert "sb3-ext" in yaml.safe_load(card.split("---\n")[1])["tags"]
    commands = [index for index, line in enumerate(card.splitlines()) if "rl_zoo3.load_from_hub" in line]
    assert commands and all("only set it for people you trust" in card.splitlines()[index - 1] for index in commands)


def test_an_agent_without_statistics_comes_back_and_plays(hub, logs, pushed, tmp_path):
    output = run_zoo(f"load_from_hub --algo ppo_ext --env {ENV} -orga me -f back", tmp_path, hub)
    assert "No normalization file" in output
    output = run_zoo(f"enjoy --algo ppo_ext --env {ENV} -f back --no-render -n 600", tmp_path, hub)
    assert "Mean reward" in output

    sent, received = (policy_of(folder / f"ppo_ext/{ENV}_1/{ENV}.zip") for folder in (logs, tmp_path / "back"))
    assert sent.keys() == received.keys()
    assert all(th.equal(sent[name], received[name]) for name in sent)


def test_a_stock_agent_can_be_pushed(hub, stock_upload):
    assert f"ppo-{ENV}.zip" in hub.repos[STOCK_REPO]
    assert b"# **PPO** Agent" in hub.repos[STOCK_REPO]["README.md"]
    assert b"pip install sb3-ext" not in hub.repos[STOCK_REPO]["README.md"]


def test_an_upload_goes_on_without_a_video_and_tells(hub, stock_upload):
    assert "No replay video, uploading without it" in stock_upload
    assert "render_mode must be 'rgb_array'" in stock_upload
    assert f"ppo-{ENV}.zip" in hub.repos[STOCK_REPO]


def test_a_video_that_ffmpeg_does_not_make_is_missed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hub_upload, "_generate_replay", hub_upload._generate_replay)  # to be restored
    monkeypatch.setenv("PATH", str(tmp_path))
    patch_replay_video()
    env = DummyVecEnv([lambda: gym.make(ENV, render_mode="rgb_array")])
    agent = SimpleNamespace(predict=lambda observation, **_: ([0], None))
    hub_upload._generate_replay(agent, env, 10, True, tmp_path)
    assert "No replay video, uploading without it" in capsys.readouterr().out


def test_normalisation_statistics_come_back(hub, stock_logs, stock_upload, tmp_path):
    run_zoo(f"load_from_hub --algo ppo --env {ENV} -orga me -f back", tmp_path, hub)
    statistics = f"ppo/{ENV}_1/{ENV}/vecnormalize.pkl"
    sent, received = (pickle.loads((folder / statistics).read_bytes()) for folder in (stock_logs, tmp_path / "back"))
    assert (sent.obs_rms.mean == received.obs_rms.mean).all()
    assert sent.obs_rms.count == received.obs_rms.count


def test_statistics_that_cannot_be_fetched_are_not_taken_for_none(hub, stock_upload, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "forbidden", {"vec_normalize.pkl"})
    output = run_zoo(f"load_from_hub --algo ppo --env {ENV} -orga me -f back", tmp_path, hub, may_fail=True)
    assert "403" in output
    assert "No normalization file" not in output
    assert not (tmp_path / "back").exists()
