"""Kills trainings with SIGKILL at random moments, resumes them, and compares the end with that of a whole training.

    python scripts/checks/exact_resume.py

For each environment, with and without VecNormalize: one training in one go, and the same training killed twice. Prints
whether the parameters, the optimizer and the logged scores are the same to the last bit.
"""

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch as th
import yaml
from stable_baselines3.common.save_util import load_from_zip_file

_SMALL = {
    "n_envs": 4,
    "n_steps": 64,
    "batch_size": 64,
    "n_epochs": 4,
    "learning_rate": "lin_0.001",
    "policy": "MlpPolicy",
}
_PIXELS = {
    **_SMALL,
    "policy": "CnnPolicy",
    "frame_stack": 4,
    "env_wrapper": ["stable_baselines3.common.atari_wrappers.AtariWrapper"],
}
#: Name: environment, section, timesteps that take some seconds
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "CartPole-v1": ("CartPole-v1", _SMALL, 60_000),
    "FrozenLake-v1": ("FrozenLake-v1", _SMALL, 40_000),
    "Pong-v5_objects": ("Pong-v5_objects", _SMALL, 15_000),
    "Pong-v5 (pixels, native)": ("Pong-v5", _PIXELS, 4_000),
    "Pong-v5 (pixels)": ("Pong-v5", {**_PIXELS, "ext": {"native": False}}, 4_000),
}


def train(folder: Path, env_id: str, section: dict[str, Any], n_timesteps: int) -> subprocess.Popen[bytes]:
    folder.mkdir()
    ext = {"checkpoints": {"resume_seconds": 1, "table": False, "video": False}, "report": False, "vec_env": "dummy"}
    section = {**section, "n_timesteps": n_timesteps, "ext": {**ext, **section.get("ext", {})}}
    (folder / "section.yml").write_text(yaml.safe_dump({env_id: section}), encoding="utf-8")
    command = (
        f"-m rl_zoo3.train --algo ppo_ext --env {env_id} --seed 1 --eval-freq -1 -conf section.yml --num-threads 1"
    )
    return start(folder, command.split())


def start(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen([sys.executable, *words], cwd=folder, stdout=output, stderr=output)


def kill_later(process: subprocess.Popen[bytes], run: Path, seconds: float) -> None:
    """After the process has saved a state."""
    begun, state = time.time(), run / "resume.zip"
    while process.poll() is None and not (state.exists() and state.stat().st_mtime > begun):
        time.sleep(0.05)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def compare(one: Path, other: Path, env_id: str) -> str:
    saved = [load_from_zip_file(run / f"{env_id}.zip")[1] for run in (one, other)]
    leaves = [th.utils._pytree.tree_leaves(parameters) for parameters in saved]
    same = all(th.equal(a, b) if isinstance(a, th.Tensor) else a == b for a, b in zip(*leaves, strict=True))
    scores = [
        [row["rollout/ep_rew_mean"] for row in csv.DictReader((run / "progress.csv").open(encoding="utf-8"))]
        for run in (one, other)
    ]
    return f"{'same' if same else 'DIFFERENT'} | {'same' if scores[0] == scores[1] else 'DIFFERENT'}"


def check(name: str, normalize: bool, folder: Path) -> str:
    env_id, section, n_timesteps = CASES[name]
    if normalize:
        has_images = section["policy"] == "CnnPolicy"
        section = {**section, "normalize": "{'norm_obs': False}" if has_images or "Frozen" in env_id else True}
    train(folder / "straight", env_id, section, n_timesteps).wait()
    straight, killed = (folder / part / "logs/ppo_ext" / f"{env_id}_1" for part in ("straight", "killed"))
    kill_later(train(folder / "killed", env_id, section, n_timesteps), killed, random.uniform(1.5, 3.5))
    resume = ["-m", "sb3_ext", "resume", "@last"]
    kill_later(start(folder / "killed", resume), killed, random.uniform(1.5, 3.5))
    start(folder / "killed", resume).wait()
    output = (folder / "killed" / "output.txt").read_text(encoding="utf-8")
    steps = [line.split()[3].rstrip(":.") for line in output.splitlines() if line.startswith("Resumed at step")]
    resumed = f"{' and '.join(steps)} of {n_timesteps:,}"
    return f"| {name} | {'yes' if normalize else 'no'} | {resumed} | {compare(straight, killed, env_id)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    print("| environment | VecNormalize | resumed at | parameters and optimizer | scores |\n|---|---|---|---|---|")
    for name in args.cases:
        for normalize in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                print(check(name, normalize, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
