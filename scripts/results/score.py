"""Plays a trained agent and prints its score and the environment's threshold: the last step of ``make train``.

python scripts/results/score.py --algo ppo_ext --env CartPole-v1 -f logs/
"""

from __future__ import annotations

import argparse

from evaluation import evaluate_latest_run, reward_threshold
from rl_zoo3 import ALGOS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algo", default="ppo_ext", choices=list(ALGOS), help="algorithm")
    parser.add_argument("--env", default="CartPole-v1", help="environment id")
    parser.add_argument("-f", "--folder", default="logs", help="log folder of the training; its latest run is played")
    parser.add_argument("-n", "--n-episodes", type=int, default=20, help="episodes to play")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the episodes")
    parser.add_argument("--python", default="python", help="how to call Python in the command to watch")
    args = parser.parse_args()

    score = evaluate_latest_run(args.algo, args.env, args.folder, args.n_episodes, seed=args.seed)
    threshold = reward_threshold(args.env)
    verdict = (
        ""
        if threshold is None
        else f" ({'solved' if score.mean >= threshold else 'not solved yet'}: the threshold is {threshold:g})"
    )
    kind = "deterministic" if score.deterministic else "stochastic"
    print(f"\nScore: {score.mean:.1f} ± {score.std:.1f} over {args.n_episodes} {kind} episodes{verdict}")
    print(f"Watch: {args.python} -m rl_zoo3.enjoy --algo {args.algo} --env {args.env} -f {args.folder}")
    print(f"Video: {args.python} -m rl_zoo3.record_video --algo {args.algo} --env {args.env} -f {args.folder}")


if __name__ == "__main__":
    main()
