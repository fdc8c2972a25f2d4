"""RL Zoo's own commands with the wheel installed, outside the checkout, as users type them."""

import re
import shlex

import numpy as np
import optuna
import pytest
import torch as th
import yaml

from sb3_ext import REINFORCE


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
    command = "rl_zoo3.train --algo reinforce --env CartPole-v1 -n 4096 --seed 1 --eval-freq 2048 --save-freq 2048"
    wheel_env.run("-m", *command.split(), cwd=folder)
    return folder / "logs/reinforce/CartPole-v1_1"


def saved_config(run):
    (path,) = run.glob("*/config.yml")
    return yaml.load(path.read_text(), Loader=yaml.UnsafeLoader)


def test_ppo_ext_trains_on_pong_and_plays(zoo, folder):
    trained = zoo("rl_zoo3.train --algo ppo_ext --env Pong-v5 -n 2048 --eval-freq -1")
    assert "2,048 steps (100%)" in trained.stdout
    assert "train/kl_stops" in (folder / "logs/ppo_ext/Pong-v5_1/progress.csv").read_text()
    assert (folder / "logs/ppo_ext/Pong-v5_1/Pong-v5.zip").is_file()
    zoo("rl_zoo3.enjoy --algo ppo_ext --env Pong-v5 -f logs/ --no-render -n 500")


def test_reinforce_plays_what_it_trained(zoo, reinforce_run):
    played = zoo("rl_zoo3.enjoy --algo reinforce --env CartPole-v1 -f logs/ --no-render -n 600")
    assert float(re.search(r"Mean reward: ([\d.]+)", played.stdout)[1]) > 0
    for which in ("--load-best", "--load-last-checkpoint"):
        zoo(f"rl_zoo3.enjoy --algo reinforce --env CartPole-v1 -f logs/ --no-render -n 50 --exp-id 1 {which}")


def test_subprocess_environments_work(zoo, folder):
    train = "rl_zoo3.train --algo reinforce --env CartPole-v1 -n 2048 --eval-freq -1 -f subproc -params n_envs:2"
    zoo(f"{train} --vec-env subproc")
    assert (folder / "subproc/reinforce/CartPole-v1_1/CartPole-v1.zip").is_file()


def test_training_goes_on_from_a_saved_agent(zoo, folder, reinforce_run):
    saved = reinforce_run / "CartPole-v1.zip"
    go_on = f"rl_zoo3.train --algo reinforce --env CartPole-v1 -n 64 -i {saved} --eval-freq -1 -f continued"
    zoo(f"{go_on} -params learning_rate:0.0 n_steps:8")
    continued = REINFORCE.load(folder / "continued/reinforce/CartPole-v1_1/CartPole-v1.zip")
    original = REINFORCE.load(saved)
    # With a learning rate of zero, what was loaded is what is saved again
    pairs = zip(original.policy.parameters(), continued.policy.parameters(), strict=True)
    assert all(th.equal(a, b) for a, b in pairs)
    assert continued.n_steps == 8


def test_progress_bar_and_tracking_work(zoo, folder):
    zoo("rl_zoo3.train --algo reinforce --env CartPole-v1 -n 2048 -P --track --eval-freq -1 -f tracked")
    assert list(folder.glob("wandb/offline-run-*/*.wandb"))


@pytest.mark.parametrize("algo", ["ppo_ext", "reinforce"])
def test_a_study_goes_on_and_its_trials_can_be_trained(zoo, folder, algo):
    study = f"--study-name s-{algo} --storage sqlite:///study/s.db"
    few_envs = "-params n_envs:1"
    search = f"rl_zoo3.train --algo {algo} --env CartPole-v1 -optimize --n-timesteps 2000 {study} -f study {few_envs}"
    zoo(f"{search} --n-trials 2")
    assert "Number of finished trials:  3" in zoo(f"{search} --n-trials 1").stdout
    assert not list((folder / "study" / algo).glob("CartPole-v1_*")), "a search left a run folder"

    trials = optuna.load_study(study_name=f"s-{algo}", storage=f"sqlite:///{folder}/study/s.db").trials
    train = f"rl_zoo3.train --algo {algo} --env CartPole-v1 -n 64 {study} --eval-freq -1 {few_envs}"
    for number in (0, 2):
        zoo(f"{train} --trial-id {number} -f trial{number}")
        config = saved_config(folder / f"trial{number}" / algo / "CartPole-v1_1")
        assert config["learning_rate"] == pytest.approx(trials[number].params["learning_rate"])


def test_a_video_is_recorded(zoo, reinforce_run):
    zoo(
        "rl_zoo3.record_video --algo reinforce --env CartPole-v1 -f logs/ -n 40 --exp-id 1 --no-render",
        SDL_VIDEODRIVER="dummy",
    )
    (video,) = reinforce_run.glob("videos/final-model-reinforce-CartPole-v1*.mp4")
    assert video.stat().st_size > 1000


def test_the_videos_of_a_training_are_joined_on_a_machine_without_ffmpeg(zoo, reinforce_run, tmp_path):
    # An empty PATH: neither ffmpeg nor a `python` can be found on it
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    zoo(
        f"rl_zoo3.record_training --algo reinforce --env CartPole-v1 -f logs/ -n 30 --exp-id 1 -o {tmp_path}",
        PATH=str(tmp_path / "bin"),
    )
    assert (tmp_path / "training.mp4").stat().st_size > 1000


def test_the_benchmark_scores_our_algorithms(zoo, folder, reinforce_run):
    zoo(
        "rl_zoo3.benchmark --log-dir logs/ --no-hub -n 600 --n-envs 1 --test-mode --num-threads 1 --benchmark-dir bench"
    )
    assert re.search(
        r"\|\s*(reinforce|ppo_ext)\s*\|\s*(CartPole|Pong)-v\d", (folder / "bench/benchmark.md").read_text()
    )


def test_the_rl_zoo3_command_works(zoo, wheel_env, folder):
    code = "import sys; sys.argv[0] = 'rl_zoo3'; from rl_zoo3.cli import main; main()"
    args = "train --algo ppo_ext --env CartPole-v1 -n 512 --eval-freq -1 -f cli".split()
    wheel_env.run("-c", code, *args, cwd=folder)
    assert (folder / "cli/ppo_ext/CartPole-v1_1/CartPole-v1.zip").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--algo ppo_exx --env CartPole-v1", "There is no algorithm 'ppo_exx': did you mean 'ppo_ext'?"),
        ("--algo=reinfor --env CartPole-v1", "There is no algorithm 'reinfor': did you mean 'reinforce'?"),
        ("--algo ppo_ext --env Pong-v6", "you maybe meant Pong-v5"),
        (
            "--algo ppo_ext --env CartPole-v1 -params kl_stop_facto:2",
            "PPOExt has no parameter 'kl_stop_facto': did you mean 'kl_stop_factor'?",
        ),
        ("--algo ppo_ext --env CartPole-v1 -params exts:{}", "PPOExt has no parameter 'exts': did you mean 'ext'?"),
        ("--algo reinforce --env CartPole-v1 -params gae_lambda:1", "REINFORCE has no parameter 'gae_lambda'"),
        (
            "--algo ppo_ext --env CartPole-v1 --conf-file own.yml",
            "has no section 'CartPole-v1' or 'default' for ppo_ext: did you mean 'CartPole-v0'?",
        ),
        ("--algo ppo_ext --env Acrobot-v1 --conf-file own.yml", "the section for Acrobot-v1 needs policy"),
        ("--algo ppo_ext --env Pong-v5 --conf-file own.yml", "has no section 'atari' or 'Pong-v5'"),
    ],
)
def test_mistakes_get_an_error_with_the_nearest_name(zoo, tmp_path, arguments, message):
    (tmp_path / "own.yml").write_text(
        "CartPole-v0:\n  n_timesteps: 100\n  policy: MlpPolicy\nAcrobot-v1:\n  n_timesteps: 1e3\n"
    )
    result = zoo(f"rl_zoo3.train {arguments} -n 64", cwd=tmp_path, check=False)
    assert result.returncode != 0
    assert message in result.stderr
    assert not list(tmp_path.glob("logs/*/*")), "it left a run folder, which `enjoy` would take for the latest"


def test_an_environment_without_a_section_uses_the_one_tuned_for_the_stock_algorithm(zoo, tmp_path):
    result = zoo(
        "rl_zoo3.train --algo ppo_ext --env BipedalWalker-v3 -n 64 --eval-freq -1 -params n_envs:1 n_steps:64",
        cwd=tmp_path,
    )
    assert "using RL Zoo's for ppo" in result.stdout
    assert saved_config(tmp_path / "logs/ppo_ext/BipedalWalker-v3_1")["gamma"] == 0.999


def test_the_stock_manager_is_untouched_for_stock_algorithms(zoo, tmp_path):
    search = "rl_zoo3.train --algo ppo --env CartPole-v1 -optimize --n-timesteps 64 --n-trials 1 --no-optim-plots"
    zoo(search, cwd=tmp_path)
    assert (tmp_path / "logs/ppo/CartPole-v1_1").is_dir()


def test_evaluations_are_written(reinforce_run):
    evaluations = np.load(reinforce_run / "evaluations.npz")
    assert evaluations["timesteps"].tolist() == [2048, 4096]
