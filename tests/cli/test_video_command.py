"""``sb3-ext video``: which models it films, where to, and what it refuses."""

import json
import shutil
import subprocess
import sys
import time
import zipfile

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image
from report_folders import zoo_run

from sb3_ext.cli import main

TRAIN = "train --env CartPole-v1 -n 256 --seed 1 --eval-freq 128 --save-freq 128 --verbose 0 --num-threads 1"
HYPERPARAMS = ["-params", "n_envs:2", "n_steps:64", "batch_size:64", "ext:dict(report=False)"]
SHORT = "--seconds 0.1 --set title_seconds=0.04 --set hold_seconds=0".split()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("video") / "logs"
    main([*TRAIN.split(), "-f", str(logs), *HYPERPARAMS])
    return logs


@pytest.fixture
def video(logs, capsys):
    """Films a run; returns what was printed."""

    def make(*words, run="@last", code=0):
        assert main(["video", run, "-f", str(logs), *SHORT, *words]) == code
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return printed.err if code else printed.out

    return make


def facts_of(path):
    return next(imageio_ffmpeg.read_frames(str(path)))


def test_the_best_model_is_filmed_into_the_run_folder(video, logs):
    said = video()
    assert said.startswith("Filming ") and "best_model.zip" in said.splitlines()[0]
    (path,) = (logs / "ppo_ext/CartPole-v1_1/videos").glob("film-step-*.mp4")
    assert f"Written: {path} (0.1 s, " in said
    assert facts_of(path)["size"] == (1920, 1080)


def test_a_model_can_be_named_and_the_film_can_be_elsewhere(video, tmp_path):
    said = video("-o", str(tmp_path / "new" / "film.mp4"), run="@last@128")
    assert "rl_model_128_steps.zip: 128 steps" in said and (tmp_path / "new" / "film.mp4").is_file()


def test_a_gif_is_small_and_beside_the_film(video, tmp_path):
    video("-o", str(tmp_path / "film.mp4"), "--gif")
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.size == (640, 360) and gif.n_frames >= 2
        assert len(gif.convert("RGB").getcolors()) <= 64
    assert (tmp_path / "film.mp4").is_file()


def test_a_gif_can_be_all_that_is_written(video, tmp_path):
    video("-o", str(tmp_path / "agent.gif"))
    assert [path.name for path in tmp_path.iterdir()] == ["agent.gif"]


@pytest.mark.parametrize("kind", ["sequence", "grid"])
def test_a_montage_shows_the_models_of_different_steps(video, logs, kind):
    assert "Filming the models of 128, 256 steps" in video("--montage", kind)
    assert (logs / f"ppo_ext/CartPole-v1_1/videos/montage-{kind}.mp4").is_file()


def test_a_montage_has_the_first_and_the_last_model_and_some_evenly_spaced_between_them(video, logs, tmp_path):
    run = shutil.copytree(logs / "ppo_ext/CartPole-v1_1", tmp_path / "CartPole-v1_1")
    model = _with_steps(run / "rl_model_128_steps.zip", tmp_path)
    for step in (10, 20, 30, 40, 50, 250, 255):
        shutil.copy(model(step), run / f"rl_model_{step}_steps.zip")
    said = video("--montage", "--clips", "3", "-o", str(tmp_path / "film.mp4"), run=str(run))
    assert "Filming the models of 10, 128, 256 steps" in said


def _with_steps(source, folder):
    """Copies of a model that say another number of timesteps."""

    def make(step):
        path = folder / f"{step}.zip"
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name == "data":
                    content = json.dumps({**json.loads(content), "num_timesteps": step})
                new.writestr(name, content)
        return path

    return make


def test_a_style_comes_from_a_file_and_single_options_beat_it(video, tmp_path):
    (tmp_path / "style.yml").write_text("background: '#ff0000'\naccent: white\nfields: [score]\n")
    shown = []
    for name, words in (("file", []), ("both", ["--set", "background=#0000ff", "--set", "fields=step,action"])):
        path = tmp_path / f"{name}.mp4"
        video("--style", str(tmp_path / "style.yml"), *words, "-o", str(path))
        reader = imageio_ffmpeg.read_frames(str(path))
        next(reader)
        shown.append(np.frombuffer(next(reader), np.uint8)[:3].astype(int))
    np.testing.assert_allclose(shown, [[255, 0, 0], [0, 0, 255]], atol=6)


def test_the_same_seed_gives_the_same_film_and_actions_can_be_sampled(video, tmp_path):
    films = []
    for name, words in (("a", []), ("b", []), ("c", ["--seed", "5"]), ("d", ["--stochastic"])):
        video("-o", str(tmp_path / f"{name}.mp4"), "--seconds", "0.16", *words)
        films.append((tmp_path / f"{name}.mp4").read_bytes())
    assert films[0] == films[1] and films[0] != films[2] and films[0] != films[3]


@pytest.mark.parametrize(
    ("run", "words", "answer"),
    [
        ("nosuch", [], "There is no run 'nosuch'"),
        ("@last@7", [], "It has: @128, @256, @final, @best"),
        ("@last@128", ["--montage"], "--montage shows several models"),
        ("@last", ["-o", "film.avi"], "must end with .mp4 or .gif"),
        ("@last", ["--set", "acent=red"], "style has no option 'acent': did you mean 'accent'?"),
        ("@last", ["--set", "accent"], "expected KEY=VALUE"),
        ("@last", ["--style", "nosuch.yml"], "--style nosuch.yml: there is no such file"),
    ],
)
def test_a_mistake_gets_a_short_answer(video, run, words, answer):
    assert answer in video(*words, run=run, code=2)


def test_a_run_without_a_model_says_so(video, tmp_path):
    run = str(zoo_run(tmp_path / "run", algo="ppo"))
    assert "It has no model at all" in video(run=run, code=2)
    assert "has no model at all: a montage needs several" in video("--montage", run=run, code=2)


def test_a_run_with_one_model_has_no_montage(video, logs, tmp_path):
    run = shutil.copytree(logs / "ppo_ext/CartPole-v1_1", tmp_path / "copied")
    for path in (*run.glob("rl_model_*.zip"), run / "best_model.zip", run / "last_model.zip"):
        path.unlink()
    assert "has only one model, of 256 steps" in video("--montage", run=str(run), code=2)


ENVS = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Blind(CartPoleEnv):
    metadata = {"render_modes": []}

    def __init__(self):
        super().__init__()

gym.register("Blind-v0", Blind, max_episode_steps=20)
"""


@pytest.mark.parametrize("is_installed", [True, False])
def test_an_environment_that_cant_be_filmed_is_named(video, logs, tmp_path, monkeypatch, is_installed):
    run = shutil.copytree(logs / "ppo_ext/CartPole-v1_1", tmp_path / "Blind-v0_1")
    (run / "CartPole-v1").rename(run / "Blind-v0")
    (run / "Blind-v0" / "args.yml").write_text("algo: ppo_ext\nenv: Blind-v0\ngym_packages: [blind_envs]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "blind_envs", raising=False)
    if is_installed:
        (tmp_path / "blind_envs.py").write_text(ENVS)
    said = video("-o", str(tmp_path / "film" / "film.mp4"), run=str(run), code=2)
    reason = "Blind-v0 can't be filmed: " if is_installed else "Blind-v0 is not installed here: No module named"
    assert reason in said and not list(tmp_path.glob("film/*"))


def test_sigterm_ends_it_at_once_and_leaves_no_file(logs, tmp_path):
    """Also while frames are drawn, when SDL would take the signal for the closing of its window."""
    path = tmp_path / "film.mp4"
    words = ["video", "@last", "-f", str(logs), "-o", str(path), "--seconds", "600", "--episodes", "1000"]
    with subprocess.Popen([sys.executable, "-m", "sb3_ext", *words], stderr=subprocess.DEVNULL) as process:
        limit = time.monotonic() + 120
        while not list(tmp_path.iterdir()) and time.monotonic() < limit:
            time.sleep(0.1)
        time.sleep(0.5)
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert list(tmp_path.iterdir()) == []
