"""The tuned configs solve their environments, through the real command. Minutes each: ``make test-slow``."""

import sys

import pytest
from conftest import PROJECT

sys.path.insert(0, str(PROJECT / "scripts" / "results"))
from evaluation import evaluate_latest_run


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("algo", "env", "score"),
    [
        ("ppo_ext", "CartPole-v1", 475),
        ("reinforce", "CartPole-v1", 475),
        ("reinforce", "FrozenLake-v1", 0.70),
    ],
)
def test_the_config_solves_its_environment(wheel_env, tmp_path, algo, env, score, seed):
    train = f"-m rl_zoo3.train --algo {algo} --env {env} --seed {seed} --num-threads 1 --eval-freq -1 -f logs"
    wheel_env.run(*train.split(), cwd=tmp_path)
    n_episodes = 1000 if env == "FrozenLake-v1" else 100
    evaluation = evaluate_latest_run(algo, env, str(tmp_path / "logs"), n_episodes, n_envs=20, seed=1000 * seed)
    assert evaluation.mean >= score
