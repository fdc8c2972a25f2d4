"""Tunes from a bad start, and compares the result with the start and with RL Zoo's hyperparameters on fresh seeds.

python scripts/results/tune_bad_start.py --minutes 20 --workers 2

The start has RL Zoo's hyperparameters for PPO, with 30 times the learning rate and a clip range of 0.9. RL Zoo's own
are not among the first trials. What is tuned or trained already is kept in the folder: the same command continues.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms
import yaml
from fresh_seeds import FreshSeeds, FreshTraining

from sb3_ext.tune.judge import steps_to_threshold
from sb3_ext.zoo.config.files import find_section

ALGO = "ppo_ext"
#: Of each training. RL Zoo's section for Acrobot-v1 has a million, of which a search of minutes can't have many
TIMESTEPS = {"CartPole-v1": 100_000, "Acrobot-v1": 200_000}
SB3_LEARNING_RATE = 3e-4


def sections(env_id: str, timesteps: int) -> dict[str, dict[str, Any]]:
    """The bad start, and RL Zoo's hyperparameters."""
    stock = {**find_section(None, "ppo", env_id, is_atari=False).values, "n_timesteps": timesteps}
    learning_rate = stock.get("learning_rate", SB3_LEARNING_RATE)
    kind, separator, number = str(learning_rate).rpartition("_")
    higher = 30 * float(number)
    bad = {"learning_rate": f"{kind}_{higher:g}" if separator else higher, "clip_range": 0.9}
    return {"bad start": {**stock, **bad}, "RL Zoo": stock}


def tune(env_id: str, start: dict[str, Any], args: argparse.Namespace) -> dict[str, Any] | None:
    """:return: the section that was written, if any"""
    folder = Path(args.folder, "tune", f"bad_start_{env_id}")
    done, written, conf = folder / "done", folder / "tuned.yml", Path(args.folder, f"bad_{env_id}.yml")
    if not done.exists():
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(yaml.safe_dump({env_id: start}), encoding="utf-8")
        command = [sys.executable, "-m", "sb3_ext", "tune", env_id, "--algo", ALGO, "--conf-file", str(conf)]
        command += ["--no-rl-zoo", "--minutes", str(args.minutes), "--workers", str(args.workers)]
        command += ["--study", folder.name, "-f", args.folder, "--seed", str(args.seed), *args.more]
        print(" ".join(command), flush=True)
        subprocess.run(command, check=True)
        done.touch()
    return yaml.safe_load(written.read_text(encoding="utf-8"))[env_id] if written.exists() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=list(TIMESTEPS), choices=TIMESTEPS, metavar="ENV")
    parser.add_argument("--timesteps", type=int, help="of each training (default: by environment)")
    parser.add_argument("--minutes", type=float, default=20, help="of each study (default: 20)")
    parser.add_argument("--workers", type=int, default=2, help="trainings at once (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="of the studies (default: 1)")
    parser.add_argument("--seeds", type=int, default=5, help="fresh seeds (default: 5)")
    parser.add_argument("--evaluations", type=int, default=20, help="of a training on a fresh seed (default: 20)")
    parser.add_argument("--episodes", type=int, default=20, help="of each of them (default: 20)")
    parser.add_argument("-f", "--folder", default="logs/tune_bad_start", help="where everything is kept")
    parser.add_argument("more", nargs="*", metavar="-- OPTION", help="more options of sb3-ext tune")
    args = parser.parse_args()
    wanted: dict[tuple[str, str], list[FreshTraining]] = {}
    for env_id in args.envs:
        timesteps = args.timesteps or TIMESTEPS[env_id]
        found = sections(env_id, timesteps)
        tuned = tune(env_id, found["bad start"], args)
        if tuned is None:
            print(f"{env_id}: nothing was found that is clearly better than the start")
        for name, section in (found if tuned is None else {**found, "ours": tuned}).items():
            trainings = [FreshTraining(name, env_id, section, seed, timesteps) for seed in range(args.seeds)]
            wanted[env_id, name] = trainings
    trainer = FreshSeeds(Path(args.folder, "fresh"), ALGO, args.workers, args.evaluations, args.episodes)
    curves = iter(trainer.train([training for trainings in wanted.values() for training in trainings]))
    lines = [
        "| environment | hyperparameters | steps to the threshold, by seed | seeds that reach it |",
        "|---|---|---|---|",
    ]
    for (env_id, name), trainings in wanted.items():
        threshold = gym.spec(env_id).reward_threshold
        assert threshold is not None
        steps = [steps_to_threshold(next(curves), threshold) for _ in trainings]
        by_seed = ", ".join("never" if step is None else f"{step:,}" for step in steps)
        n_reached = sum(step is not None for step in steps)
        lines.append(f"| {env_id} ({threshold:g}) | {name} | {by_seed} | {n_reached} of {len(steps)} |")
    print("\n".join(lines))
    Path(args.folder, "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
