"""RL Zoo's ``train`` and ``enjoy`` with our algorithms."""

import re

import numpy as np
import pytest
import torch as th
import yaml
from zoo_in_process import enjoy, train

from sb3_ext import REINFORCE


def saved_config(run):
    (path,) = run.glob("*/config.yml")
    return yaml.load(path.read_text(), Loader=yaml.UnsafeLoader)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run folder of a REINFORCE agent."""
    folder = tmp_path_factory.mktemp("zoo")
    often = "--eval-freq 256 --save-freq 256 --eval-episodes 1"
    train(f"--algo reinforce --env CartPole-v1 -n 512 --seed 1 {often} -params n_envs:1 n_steps:128", folder)
    return folder / "logs/reinforce/CartPole-v1_1"


def test_evaluations_are_written(trained):
    assert np.load(trained / "evaluations.npz")["timesteps"].tolist() == [256, 512]


@pytest.mark.parametrize("which", ["--load-best", "--load-last-checkpoint"])
def test_the_best_model_and_checkpoints_can_be_played(trained, capsys, which):
    logs = trained.parent.parent
    enjoy(f"--algo reinforce --env CartPole-v1 -f {logs} -n 600 {which}", logs)
    assert float(re.search(r"Mean reward: ([\d.]+)", capsys.readouterr().out)[1]) > 0


def test_training_goes_on_from_a_saved_agent(trained, tmp_path):
    saved = trained / "CartPole-v1.zip"
    go_on = f"--algo reinforce --env CartPole-v1 -n 64 -i {saved} --eval-freq -1"
    train(f"{go_on} -params learning_rate:0.0 n_steps:8 n_envs:1", tmp_path)
    continued = REINFORCE.load(tmp_path / "logs/reinforce/CartPole-v1_1/CartPole-v1.zip")
    original = REINFORCE.load(saved)
    # With a learning rate of zero, what was loaded is what is saved again
    pairs = zip(original.policy.parameters(), continued.policy.parameters(), strict=True)
    assert all(th.equal(a, b) for a, b in pairs)
    assert continued.n_steps == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--algo ppo_ext --env Pong-v6", "did you mean 'Pong-v5'"),
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
        ("--algo ppo_ext --env Acrobot-v1 --conf-file own.yml", "own.yml:4: Acrobot-v1 needs policy"),
        ("--algo ppo_ext --env Pong-v5 --conf-file own.yml", "has no section 'atari' or 'Pong-v5'"),
        ("--algo ppo_ext --env CartPole-v1 -params n_epochs:'\"three\"'", "n_epochs='three' must be a whole number"),
        (
            "--algo ppo_ext --env CartPole-v1 -params policy:'\"own.Own\"'",
            "'own.Own' can't be used: there is no module 'own'",
        ),
    ],
)
def test_mistakes_get_an_error_with_the_nearest_name(tmp_path, arguments, message):
    (tmp_path / "own.yml").write_text(
        "CartPole-v0:\n  n_timesteps: 100\n  policy: MlpPolicy\nAcrobot-v1:\n  n_timesteps: 1e3\n"
    )
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        train(f"{arguments} -n 64", tmp_path)
    assert not list(tmp_path.glob("logs/*/*")), "it left a run folder, which `enjoy` would take for the latest"


def test_an_environment_without_a_section_uses_the_one_tuned_for_the_stock_algorithm(tmp_path, capsys):
    few = "-n 64 --eval-freq -1 -params n_envs:1 n_steps:64"
    train(f"--algo ppo_ext --env BipedalWalker-v3 {few}", tmp_path)
    assert "using RL Zoo's for ppo" in capsys.readouterr().out
    assert saved_config(tmp_path / "logs/ppo_ext/BipedalWalker-v3_1")["gamma"] == 0.999


def test_hyperparameters_can_be_in_a_python_file(tmp_path):
    section = {"n_timesteps": 64, "policy": "MlpPolicy", "n_steps": 32, "batch_size": 32, "gamma": 0.5}
    (tmp_path / "own.py").write_text(f"hyperparams = {{'CartPole-v1': {section}}}\n")
    train("--algo ppo_ext --env CartPole-v1 --conf-file own.py --eval-freq -1", tmp_path)
    assert saved_config(tmp_path / "logs/ppo_ext/CartPole-v1_1")["gamma"] == 0.5


def test_the_stock_manager_is_untouched_for_stock_algorithms(tmp_path):
    # With PPO, a trial may draw rollouts of many thousand steps
    few = "--n-timesteps 64 --n-trials 1 --n-evaluations 1 --eval-episodes 1"
    train(f"--algo dqn --env CartPole-v1 -optimize {few} --no-optim-plots", tmp_path)
    assert (tmp_path / "logs/dqn/CartPole-v1_1").is_dir()
