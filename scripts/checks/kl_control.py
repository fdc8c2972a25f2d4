"""Checks that KL early stopping, rollback and the adaptive learning rate keep the KL divergence within their limits.

    python scripts/checks/kl_control.py --plot docs/images/kl_control.png

Trains PPOExt on CartPole-v1 with a learning rate that is too high for plain PPO: without any of them, and with each.
Measures the KL divergence after each update, over its whole rollout.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt

TARGET = 0.01
SETTINGS = {"n_steps": 128, "batch_size": 64, "n_epochs": 10, "learning_rate": 1e-2, "gae_lambda": 0.9}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain PPO": {},
    "early stop, as SB3": {"target_kl": TARGET},
    "early stop by epoch": {"target_kl": TARGET, "kl_stop_scope": "epoch"},
    "rollback": {"target_kl": TARGET, "kl_rollback": True},
    "rollback by epoch": {"target_kl": TARGET, "kl_stop_scope": "epoch", "kl_rollback": True},
    "adaptive learning rate": {"kl_adaptive_lr": TARGET},
    "adaptive, and rollback by epoch": {
        "kl_adaptive_lr": TARGET, "target_kl": TARGET, "kl_stop_scope": "epoch", "kl_rollback": True
    },
}  # fmt: skip


class MeasuredPPO(PPOExt):
    """Keeps the KL divergence that each update left."""

    def train(self) -> None:
        super().train()
        self.kls = [*getattr(self, "kls", []), self._rollout_kl()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-timesteps", type=int, default=40_960, help="agent steps of each run")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each variant")
    parser.add_argument("--plot", type=Path, help="file for the picture")
    args = parser.parse_args()
    th.set_num_threads(1)

    results = {}
    print(f"Limit: 1.5 x {TARGET}; the adaptive rate aims between {TARGET / 2} and {2 * TARGET}\n")
    print("| variant | median KL | 95th percentile | largest | updates over the limit | stops | last 100 episodes |")
    print("|---|---|---|---|---|---|---|")
    for name, options in VARIANTS.items():
        models = [train(options, seed, args.n_timesteps) for seed in range(1, args.seeds + 1)]
        results[name] = np.array([model.kls for model in models])
        print(row(name, models), flush=True)
    if args.plot is not None:
        plot(results, args.plot)


def train(options: dict[str, Any], seed: int, n_timesteps: int) -> MeasuredPPO:
    env = make_vec_env("CartPole-v1", 8, seed=seed)
    return MeasuredPPO("MlpPolicy", env, seed=seed, device="cpu", **SETTINGS, **options).learn(n_timesteps)


def row(name: str, models: list[MeasuredPPO]) -> str:
    kls = np.array([model.kls for model in models])
    over = np.mean(kls > 1.5 * TARGET)
    stops = np.mean([model.kl_stops for model in models]) / kls.shape[1]
    score = np.mean([episode["r"] for model in models for episode in model.ep_info_buffer or []])
    numbers = f"{np.median(kls):.4f} | {np.percentile(kls, 95):.4f} | {kls.max():.4f}"
    return f"| {name} | {numbers} | {over:.0%} | {stops:.0%} | {score:.0f} |"


def plot(results: dict[str, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5))
    for name, kls in results.items():
        axes.plot(np.median(kls, axis=0), label=name, linewidth=1.3)
    axes.axhline(1.5 * TARGET, color="black", linestyle="--", linewidth=1, label="limit")
    axes.set(
        yscale="log", xlabel="update", ylabel="KL divergence after the update", title="CartPole-v1, learning rate 0.01"
    )
    axes.legend(fontsize=8, ncols=2)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
