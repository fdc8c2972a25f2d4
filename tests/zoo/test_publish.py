"""``sb3-ext publish``: what arrives on the Hub, what never does, and what it says when it can't."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from hub_server import LocalHub

from sb3_ext.cli import main

REPO = "me/ppo_ext-CartPole-v1"
TRAIN = "train --env CartPole-v1 -n 256 --seed 1 --eval-freq 128 --verbose 0 --num-threads 1"
HYPERPARAMS = ["-params", "n_envs:2", "n_steps:64", "batch_size:64", "normalize:True"]
PUBLISH = ["publish", "@last", "--episodes", "3"]


@pytest.fixture(scope="module")
def hub():
    with LocalHub() as server:
        yield server


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("publish") / "logs"
    main([*TRAIN.split(), "-f", str(logs), *HYPERPARAMS])
    return logs


def command(words, hub, folder, **variables):
    """Run a command as on a machine of a person who is logged in; returns the exit code and all that it printed."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    ours = {"HF_ENDPOINT": hub, "HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_0123456789"}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**outside, **ours, "NO_PROXY": "127.0.0.1", "TRUST_REMOTE_CODE": "True", **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def published(hub, logs):
    """The repository and the Space, and what was printed."""
    code, printed = command(["sb3_ext", *PUBLISH, "-f", str(logs), "--space", "-o", "kept"], hub.url, logs.parent)
    assert code == 0, printed
    return hub.repos[REPO], hub.repos[f"{REPO}-inspector"], printed


def test_the_agent_arrives_with_its_card_results_report_plots_and_film(published):
    files, _, printed = published
    wanted = {"ppo_ext-CartPole-v1.zip", "vec_normalize.pkl", "config.yml", "args.yml", "env_kwargs.yml", "report.md"}
    wanted |= {"train_eval_metrics.zip", "results.json", "run.json", "README.md", "plots/score.png", "replay.mp4"}
    assert wanted <= set(files)
    assert f"/{REPO}\n" in printed


def test_the_card_has_the_score_of_results_json_for_the_hub_s_leaderboards(published):
    files, _, _ = published
    results = json.loads(files["results.json"])
    (entry,) = yaml.safe_load(files["README.md"].decode().split("---")[1])["model-index"]
    score = entry["results"][0]["metrics"][0]["value"]
    assert score == f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}"
    assert results["n_episodes"] == len(results["episodes"]) == 3
    assert "pickle" in files["README.md"].decode()


def test_nothing_of_this_machine_or_its_secrets_is_published(published, logs):
    files, _, _ = published
    for name, content in files.items():
        assert str(logs.parent).encode() not in content, name
        assert b"hf_0123456789" not in content, name
    assert not {"pid", "host", "arguments"} & set(json.loads(files["run.json"]))


def test_rl_zoo_downloads_and_plays_it(published, hub, tmp_path):
    where = ["--algo", "ppo_ext", "--env", "CartPole-v1", "-f", "downloaded"]
    code, printed = command(["rl_zoo3.load_from_hub", *where, "-orga", "me"], hub.url, tmp_path)
    assert code == 0, printed
    code, printed = command(["rl_zoo3.enjoy", *where, "-n", "50", "--no-render"], hub.url, tmp_path)
    assert code == 0 and "Episode Reward" in printed, printed


def test_the_space_is_the_inspector_s_page(published):
    _, space, _ = published
    assert yaml.safe_load(space["README.md"].decode().split("---")[1])["sdk"] == "static"
    assert b'{"episodes": [[{"start"' in space["index.html"]


def test_a_dry_run_shows_exactly_what_would_be_uploaded(published, logs, capsys, monkeypatch, tmp_path):
    files, _, _ = published
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert main([*PUBLISH, "-f", str(logs), "--repo", REPO, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert files["README.md"].decode() in shown
    listed = [line.split()[-1] for line in shown.partition(f"Would be uploaded to {REPO}:\n")[2].splitlines()]
    assert set(listed) == set(files) - {".gitattributes"}


def test_the_files_can_be_kept(published, logs):
    files, _, _ = published
    assert (logs.parent / "kept" / "README.md").read_bytes() == files["README.md"]


def test_without_a_token_nothing_is_played_or_uploaded(logs, hub, tmp_path):
    before = set(hub.repos)
    words = ["sb3_ext", *PUBLISH, "-f", str(logs), "--repo", "me/other"]
    code, printed = command(words, hub.url, tmp_path, HF_TOKEN="")
    assert code == 2 and "no token" in printed and "Playing" not in printed
    assert set(hub.repos) == before


def test_a_hub_that_can_t_be_reached_is_named(logs, tmp_path):
    words = ["sb3_ext", *PUBLISH, "-f", str(logs), "--repo", "me/other", "--no-video", "--episodes", "1"]
    code, printed = command(words, "http://127.0.0.1:9", tmp_path)
    assert code == 2 and "The Hugging Face Hub can't be used" in printed and "Traceback" not in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["@last@77", "--dry-run"], "does not have the model @77"),
        (["@last", "--dry-run", "-o", "."], "it exists already"),
        (["@last", "--dry-run", "--episodes", "0"], "--episodes"),
    ],
)
def test_a_mistake_is_answered_before_anything_is_played(logs, words, said, capsys):
    try:
        code = main(["publish", *words, "-f", str(logs)])
    except SystemExit as stopped:
        code = stopped.code
    printed = capsys.readouterr()
    assert code == 2 and said in printed.err and "Playing" not in printed.out
