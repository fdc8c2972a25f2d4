"""``sb3-ext enjoy``: which model it plays, and what it records."""

import json
import shutil

import imageio_ffmpeg
import pytest
from report_folders import zoo_run

from sb3_ext.cli import main

TRAIN = "train --env CartPole-v1 -n 256 --seed 1 --eval-freq 128 --save-freq 128 --verbose 0 --num-threads 1"
HYPERPARAMS = ["-params", "n_envs:2", "n_steps:64", "batch_size:64", "ext:dict(report=False)"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("enjoy") / "logs"
    main([*TRAIN.split(), "-f", str(logs), *HYPERPARAMS])
    return logs


@pytest.fixture
def enjoy(logs, capsys):
    """Plays the run; returns what was printed to stdout and stderr."""

    def play(*words, run="@last"):
        assert main(["enjoy", run, "-f", str(logs), *words]) == 0
        return capsys.readouterr()

    return play


@pytest.mark.parametrize(
    ("words", "said", "file"),
    [
        ([], "best_model.zip: ", "best_model.zip"),
        (["--final"], "CartPole-v1.zip: 256 steps", "CartPole-v1.zip"),
        (["--load-checkpoint", "128"], "rl_model_128_steps.zip: 128 steps", "rl_model_128_steps.zip"),
    ],
)
def test_it_says_which_model_it_plays_and_rl_zoo_loads_it(enjoy, words, said, file):
    printed = enjoy("-n", "20", "--no-render", *words).out
    assert printed.startswith("Playing ") and said in printed.splitlines()[0]
    assert [line for line in printed.splitlines() if line.startswith("Loading ") and line.endswith(f"/{file}")]


def test_the_model_can_be_named_after_the_run(enjoy):
    assert "rl_model_128_steps.zip: 128 steps" in enjoy("-n", "20", "--no-render", run="@last@128").out


def test_without_a_display_it_plays_without_a_window(enjoy, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert "There is no display" in enjoy("-n", "20").out


@pytest.mark.parametrize("words", [["--no-render"], []], ids=["without a window", "in a window"])
def test_it_plays_as_many_episodes_as_asked(enjoy, words, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert "\n2 episodes: mean reward " in enjoy("--episodes", "2", "--stochastic", *words).out


def test_scores_for_programs_are_all_that_goes_to_stdout(enjoy):
    result = json.loads(enjoy("--json", "--episodes", "3").out)
    assert len(result["episodes"]) == 3 and result["algo"] == "ppo_ext" and result["video"] is None
    rewards = [episode["reward"] for episode in result["episodes"]]
    assert result["mean_reward"] == pytest.approx(sum(rewards) / 3)
    assert all(episode["reward"] == episode["length"] for episode in result["episodes"])  # a reward of 1 a step


def test_the_same_seed_plays_the_same_episodes(enjoy):
    assert enjoy("--json", "--seed", "5").out == enjoy("--json", "--seed", "5").out


def test_a_video_shows_every_step_and_the_scores_are_beside_it(enjoy, tmp_path):
    enjoy("-o", str(tmp_path / "game.mp4"), "--episodes", "2")
    result = json.loads((tmp_path / "game.json").read_text())
    # A picture before each episode, and one after each step
    n_pictures = sum(episode["length"] + 1 for episode in result["episodes"])
    assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "game.mp4"))[0] == n_pictures
    assert result["video"] == str(tmp_path / "game.mp4")


def test_by_default_the_video_is_in_the_run_folder(enjoy, logs):
    enjoy("--record", "--episodes", "1", "--final")
    assert (logs / "ppo_ext/CartPole-v1_1/videos/enjoy-step-256.mp4").is_file()


def test_a_run_folder_that_was_copied_elsewhere_can_be_played(enjoy, logs, tmp_path):
    copy = shutil.copytree(logs / "ppo_ext/CartPole-v1_1", tmp_path / "copied")
    assert json.loads(enjoy("--json", run=str(copy)).out)["run"] == str(copy)


@pytest.mark.parametrize(
    ("run", "words", "answer"),
    [
        ("nosuch", [], "There is no run 'nosuch'"),
        ("@last", ["-o", "game.gif"], "a video's name must end with .mp4"),
        ("@last", ["--load-checkpoint", "7", "--json"], "It has: @128, @256, @final, @best"),
    ],
)
def test_a_mistake_gets_a_short_answer(logs, run, words, answer, capsys):
    assert main(["enjoy", run, "-f", str(logs), *words]) == 2
    said = capsys.readouterr().err
    assert answer in said and "Traceback" not in said


def test_a_run_without_a_model_says_so(tmp_path, capsys):
    assert main(["enjoy", str(zoo_run(tmp_path / "run", algo="ppo"))]) == 2
    assert "It has no model at all" in capsys.readouterr().err


def test_half_a_model_is_named(logs, tmp_path, capsys):
    copy = shutil.copytree(logs / "ppo_ext/CartPole-v1_1", tmp_path / "copied")
    (copy / "best_model.zip").write_bytes((copy / "best_model.zip").read_bytes()[:1000])
    assert main(["enjoy", str(copy)]) == 2
    said = capsys.readouterr().err
    assert "best_model.zip" in said and "Traceback" not in said


def test_a_run_without_rl_zoos_files_is_refused(tmp_path, capsys):
    (tmp_path / "run.json").write_text("{}")
    assert main(["enjoy", str(tmp_path)]) == 2
    assert "was not trained by RL Zoo" in capsys.readouterr().err
