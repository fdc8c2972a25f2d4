"""Play a trained agent and say its score beside the environment's threshold: the last step of ``make train``.

python scripts/score.py --algo ppo_ext --env CartPole-v1 -f logs/
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import rl_zoo3.import_envs  # noqa: F401  registers RL Zoo's environments
from huggingface_sb3 import EnvironmentName
from rl_zoo3 import ALGOS, create_test_env, get_saved_hyperparams
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import get_model_path
from stable_baselines3.common.evaluation import evaluate_policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algo", default="ppo_ext", choices=list(ALGOS), help="algorithm")
    parser.add_argument("--env", default="CartPole-v1", help="environment id")
    parser.add_argument("-f", "--folder", default="logs", help="log folder of the training; its latest run is played")
    parser.add_argument("-n", "--n-episodes", type=int, default=20, help="episodes to play")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the episodes")
    parser.add_argument("--python", default="python", help="how to call Python in the command to watch")
    args = parser.parse_args()

    env_name = EnvironmentName(args.env)
    _, model_path, log_path = get_model_path(0, args.folder, args.algo, env_name)
    hyperparams, stats_path = get_saved_hyperparams(f"{log_path}/{env_name}", test_mode=True)
    env_kwargs = hyperparams.pop("env_kwargs", {})
    env = create_test_env(
        args.env,
        stats_path=stats_path,
        seed=args.seed,
        should_render=False,
        hyperparams=hyperparams,
        env_kwargs=env_kwargs,
    )
    # As RL Zoo: stochastic on Atari, whose scores are reported that way
    deterministic = not ExperimentManager.is_atari(args.env)
    model = ALGOS[args.algo].load(model_path, device="cpu")
    mean, std = evaluate_policy(model, env, args.n_episodes, deterministic=deterministic)
    env.close()

    threshold = gym.spec(args.env).reward_threshold
    verdict = (
        "" if threshold is None else f" (solved from {threshold:g} on: {'yes' if mean >= threshold else 'not yet'})"
    )
    kind = "deterministic" if deterministic else "stochastic"
    print(f"\nScore: {mean:.1f} ± {std:.1f} over {args.n_episodes} {kind} episodes{verdict}")
    print(f"Watch: {args.python} -m rl_zoo3.enjoy --algo {args.algo} --env {args.env} -f {args.folder}")
    print(f"Video: {args.python} -m rl_zoo3.record_video --algo {args.algo} --env {args.env} -f {args.folder}")


if __name__ == "__main__":
    main()
