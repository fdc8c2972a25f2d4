"""RL Zoo's commands play best models and checkpoints with the statistics that were saved with them."""

import argparse
import pickle
import re
import warnings

import numpy as np
import pytest
from huggingface_sb3 import EnvironmentName
from rl_zoo3 import exp_manager
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize, unwrap_vec_normalize
from zoo_in_process import enjoy, train

import sb3_ext

ENV = "Pendulum-v1"
CONFIG = f"""
{ENV}:
  n_timesteps: 512
  policy: MlpPolicy
  n_steps: 128
  normalize: true
  callback: sb3_ext.callbacks.save_normalization.SaveNormalization
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a stock algorithm was trained: evaluated after 300 steps, saved after 200, 400 and 512."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "own.yml").write_text(CONFIG)
    often = "--eval-freq 300 --save-freq 200 --eval-episodes 1"
    train(f"--algo ppo --env {ENV} --conf-file own.yml --seed 1 {often} -f logs", folder)
    return folder


@pytest.fixture
def run(folder):
    return folder / f"logs/ppo/{ENV}_1"


@pytest.fixture(scope="module")
def zoo():
    """RL Zoo as a library."""
    sb3_ext.register()
    import rl_zoo3

    return rl_zoo3


def make_env(zoo, folder, seed=0, **which):
    """As the commands make it, for the model that they are asked for."""
    name = EnvironmentName(ENV)
    _, _, log_path = zoo.utils.get_model_path(0, str(folder / "logs"), "ppo", name, **which)
    hyperparams, stats_path = zoo.get_saved_hyperparams(f"{log_path}/{name}", test_mode=True)
    hyperparams.pop("callback")
    return zoo.create_test_env(ENV, 1, stats_path, seed, should_render=False, hyperparams=hyperparams)


def count(path_or_env):
    """How many observations the statistics are made of."""
    if isinstance(path_or_env, VecNormalize):
        return round(path_or_env.obs_rms.count)
    with open(path_or_env, "rb") as file:
        return round(pickle.load(file).obs_rms.count)


def test_the_best_model_is_played_as_it_was_evaluated(folder, run, capsys):
    assert count(run / "best_model_vecnormalize.pkl") < count(run / ENV / "vecnormalize.pkl")
    # One episode, with the seed that the evaluation environment of the training had
    enjoy(f"--algo ppo --env {ENV} -f logs --load-best -n 200 --seed 1", folder)
    played = capsys.readouterr().out
    assert f"Statistics saved with the model: logs/ppo/{ENV}_1/best_model_vecnormalize.pkl" in played
    reward = float(re.search(r"Episode Reward: (-?[\d.]+)", played)[1])
    assert [[reward]] == pytest.approx(np.load(run / "evaluations.npz")["results"], abs=0.01)


def test_with_the_statistics_of_the_end_it_would_have_another_score(zoo, folder, run):
    env = make_env(zoo, folder, seed=1)
    reward, _ = evaluate_policy(PPO.load(run / "best_model", device="cpu"), env, 1)
    assert abs(reward - np.load(run / "evaluations.npz")["results"].item()) > 0.1


@pytest.mark.parametrize(
    ("which", "file"),
    [
        ({"load_best": True}, "best_model_vecnormalize.pkl"),
        ({"load_checkpoint": 200}, "rl_model_vecnormalize_200_steps.pkl"),
        ({"load_last_checkpoint": True}, "rl_model_vecnormalize_400_steps.pkl"),
        ({}, f"{ENV}/vecnormalize.pkl"),
    ],
)
def test_each_model_gets_its_own_statistics(zoo, folder, run, which, file):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = unwrap_vec_normalize(make_env(zoo, folder, **which))
    assert count(env) == count(run / file)
    assert not env.training and not env.norm_reward


def test_the_final_model_gets_its_own_after_another_was_played(zoo, folder, run):
    make_env(zoo, folder, load_best=True)
    env = unwrap_vec_normalize(make_env(zoo, folder))
    assert count(env) == count(run / ENV / "vecnormalize.pkl") != count(run / "best_model_vecnormalize.pkl")


def test_a_model_without_statistics_gets_those_of_the_end_and_a_warning(zoo, folder, run):
    (run / "rl_model_vecnormalize_200_steps.pkl").rename(run / "elsewhere.pkl")
    with pytest.warns(UserWarning, match=r"no normalisation statistics for .*rl_model_200_steps.*end of training"):
        env = make_env(zoo, folder, load_checkpoint=200)
    (run / "elsewhere.pkl").rename(run / "rl_model_vecnormalize_200_steps.pkl")
    assert count(unwrap_vec_normalize(env)) == count(run / ENV / "vecnormalize.pkl")


@pytest.mark.parametrize("model", ["rl_model_200_steps", "best_model", ENV])
def test_training_goes_on_with_the_statistics_of_the_model(zoo, folder, run, tmp_path, model):
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(num_threads=1),
        "ppo",
        ENV,
        str(tmp_path),
        eval_freq=-1,
        trained_agent=str(run / f"{model}.zip"),
        config=str(folder / "own.yml"),
        verbose=0,
    )
    env = unwrap_vec_normalize(manager.setup_experiment()[0].get_env())
    files = {"rl_model_200_steps": "rl_model_vecnormalize_200_steps.pkl", ENV: f"{ENV}/vecnormalize.pkl"}
    assert env.training
    assert count(env) == count(run / files.get(model, "best_model_vecnormalize.pkl"))


def test_registering_again_changes_nothing(zoo):
    before = zoo.utils.create_test_env, zoo.utils.get_model_path
    sb3_ext.register()
    assert (zoo.utils.create_test_env, zoo.utils.get_model_path) == before
    assert zoo.create_test_env is zoo.utils.create_test_env
    assert not hasattr(before[0].__wrapped__, "__wrapped__")


def test_what_is_played_shows_the_environments_own_rewards(zoo):
    terms = {"sb3_ext.wrappers.MountainCarShaping": {"terms": {"height": 1.0}}}
    env = zoo.create_test_env("MountainCar-v0", 2, None, 0, should_render=False, hyperparams={"env_wrapper": terms})
    env.reset()
    _, rewards, _, _ = env.step(np.zeros(2, int))
    assert list(rewards) == [-1, -1]


@pytest.mark.parametrize(("algo", "gravity"), [("ppo_ext", 3.0), ("ppo", 10.0)])
def test_an_agent_of_ours_is_played_in_the_task_of_its_hyperparameters(zoo, tmp_path, algo, gravity):
    (tmp_path / algo / f"{ENV}_1").mkdir(parents=True)
    (tmp_path / algo / f"{ENV}_1" / f"{ENV}.zip").touch()
    _, _, log_path = zoo.utils.get_model_path(0, str(tmp_path), algo, EnvironmentName(ENV))
    hyperparams = {"normalize": False, "env_kwargs": {"g": 3.0}}
    # As record_video does it, which knows only the command line's env_kwargs
    env = zoo.create_test_env(ENV, 1, f"{log_path}/{ENV}", 0, should_render=False, hyperparams=hyperparams)
    assert env.get_attr("g") == [gravity]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ((), "CartPole-v1_3 has no model to play: choose another run with --exp-id."),
        (("last_model",), "CartPole-v1_3 has: the last model (no option)."),
        (
            ("CartPole-v1", "last_model", "rl_model_200_steps"),
            "CartPole-v1_3 has: the final model (no option), --load-checkpoint 200.",
        ),
    ],
)
def test_a_model_that_is_missing_gets_an_error_with_those_that_are_there(zoo, tmp_path, models, said):
    run = tmp_path / "ppo_ext" / "CartPole-v1_3"
    run.mkdir(parents=True)
    for name in models:
        (run / f"{name}.zip").touch()
    with pytest.raises(ValueError, match=re.escape(said)):
        zoo.utils.get_model_path(0, str(tmp_path), "ppo_ext", EnvironmentName("CartPole-v1"), load_best=True)


def test_an_environment_without_a_run_gets_an_error_that_says_so(zoo, tmp_path):
    (tmp_path / "ppo_ext" / "CartPole-v1_3").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"ppo_ext has no run of Acrobot-v1: train one, or choose the folder with -f"):
        zoo.utils.get_model_path(0, str(tmp_path), "ppo_ext", EnvironmentName("Acrobot-v1"))
