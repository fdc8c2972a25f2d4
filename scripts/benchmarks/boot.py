"""Measures how long a training takes to start (command to first step) and to end (last step to prompt).

python scripts/benchmarks/boot.py
python scripts/benchmarks/boot.py --algos ppo ppo_ext reinforce --rounds 10

The algorithms take turns; the figures are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def measure(algo: str, n_envs: int) -> tuple[float, float]:
    """Seconds to the first step, and from the last one."""
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder, "boot.yml")
        conf.write_text(
            f"Boot-v0:\n  policy: MlpPolicy\n  n_envs: {n_envs}\n  n_steps: 16\n  n_timesteps: 64\n", encoding="utf-8"
        )
        path = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        env = {**os.environ, "BOOT_FILE": str(Path(folder, "times")), "PYTHONPATH": path}
        command = [sys.executable, "-m", "rl_zoo3.train", "--algo", algo, "--env", "Boot-v0", "--conf-file", str(conf)]
        command += ["--gym-packages", "boot_env", "--eval-freq", "-1", "--num-threads", "1", "-f", folder]
        start = time.time()
        subprocess.run(command, env=env, check=True, capture_output=True)
        end = time.time()
        first, last = map(float, Path(folder, "times").read_text(encoding="utf-8").split())
        return first - start, end - last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algos", nargs="+", default=["ppo", "ppo_ext"], help="the first is the baseline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n-envs", type=int, default=8)
    args = parser.parse_args()
    results: dict[str, list[tuple[float, float]]] = {algo: [] for algo in args.algos}
    for _ in range(args.rounds):
        for algo in args.algos:
            results[algo].append(measure(algo, args.n_envs))
    print("| algorithm | command to first step, s | last step to prompt, s |")
    print("|---|---|---|")
    for algo, times in results.items():
        starts, ends = zip(*times, strict=True)
        print(f"| {algo} | {statistics.median(starts):.2f} | {statistics.median(ends):.2f} |")


if __name__ == "__main__":
    main()
