"""
RL Zoo's own commands with the wheel installed, outside the checkout, as users type them.

What does not depend on the installation or on an interpreter of its own is in ``test_train.py``, which is faster.
"""

import re
import shlex

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands run; later tests find what earlier ones trained."""
    return tmp_path_factory.mktemp("zoo")


@pytest.fixture
def zoo(wheel_env, folder):
    def run(command, **kwargs):
        return wheel_env.run("-m", *shlex.split(command), **{"cwd": folder, **kwargs})

    return run


@pytest.fixture(scope="module")
def reinforce_run(wheel_env, folder):
    """A trained REINFORCE agent: its run folder."""
    command = "rl_zoo3.train --algo reinforce --env CartPole-v1 -n 512 --eval-freq -1 --save-freq 256 -params n_envs:1"
    wheel_env.run("-m", *shlex.split(command), "n_steps:256", cwd=folder)
    return folder / "logs/reinforce/CartPole-v1_1"


def test_ppo_ext_trains_on_pong_and_plays(zoo, folder):
    trained = zoo("rl_zoo3.train --algo ppo_ext --env Pong-v5 -n 2048 --eval-freq -1 -f pong")
    assert "2,048 steps (100%)" in trained.stdout
    assert "train/kl_stops" in (folder / "pong/ppo_ext/Pong-v5_1/progress.csv").read_text()
    assert (folder / "pong/ppo_ext/Pong-v5_1/Pong-v5.zip").is_file()
    zoo("rl_zoo3.enjoy --algo ppo_ext --env Pong-v5 -f pong --no-render -n 100")


def test_the_videos_of_a_training_are_joined_on_a_machine_without_ffmpeg(zoo, reinforce_run, tmp_path):
    # An empty PATH: neither ffmpeg nor a `python` can be found on it
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    zoo(
        f"rl_zoo3.record_training --algo reinforce --env CartPole-v1 -f logs/ -n 30 --exp-id 1 -o {tmp_path}",
        PATH=str(tmp_path / "bin"),
        SDL_VIDEODRIVER="dummy",
    )
    (video,) = tmp_path.glob("final-model-reinforce-CartPole-v1*.mp4")
    assert video.stat().st_size > 1000
    assert (tmp_path / "training.mp4").stat().st_size > 1000


def test_the_benchmark_scores_our_algorithms(zoo, folder, reinforce_run):
    zoo(
        "rl_zoo3.benchmark --log-dir logs/ --no-hub -n 600 --n-envs 1 --test-mode --num-threads 1 --benchmark-dir bench"
    )
    assert re.search(r"\|\s*reinforce\s*\|\s*CartPole-v1", (folder / "bench/benchmark.md").read_text())


def test_the_rl_zoo3_command_trains_with_a_progress_bar_and_tracking(wheel_env, folder):
    code = "import sys; sys.argv[0] = 'rl_zoo3'; from rl_zoo3.cli import main; main()"
    args = "train --algo ppo_ext --env CartPole-v1 -n 256 -P --track --eval-freq -1 -f cli".split()
    wheel_env.run("-c", code, *args, cwd=folder)
    assert (folder / "cli/ppo_ext/CartPole-v1_1/CartPole-v1.zip").is_file()
    assert list(folder.glob("wandb/offline-run-*/*.wandb"))


@pytest.mark.parametrize("algo", ["--algo ppo_exx", "--algo=ppo_exx"])
def test_a_mistyped_algorithm_gets_an_error_with_the_nearest_name(zoo, algo):
    result = zoo(f"rl_zoo3.train {algo} --env CartPole-v1", check=False)
    assert result.returncode != 0
    assert "there is no algorithm 'ppo_exx': did you mean 'ppo_ext'?" in result.stderr
