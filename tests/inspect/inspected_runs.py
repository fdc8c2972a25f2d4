"""Small runs for the inspector, trained by the command that users type."""

import time

from sb3_ext.cli import main

SMALL = ["--seed", "1", "--verbose", "0", "--num-threads", "1", "--eval-freq", "128", "--save-freq", "128"]
ON_POLICY = ["n_envs:2", "n_steps:64", "batch_size:64"]


def train(logs, env, algo="ppo_ext", params=ON_POLICY, ext="report=False"):
    """Train a run in the log folder."""
    ours = [f"ext:dict({ext})"] if algo.endswith("_ext") else []
    command = ["train", "--algo", algo, "--env", env, "-n", "256", *SMALL, "-f", str(logs), "-params", *params, *ours]
    assert main(command) == 0


def stock_run(folder, lengths, n_timesteps=100):
    """A run as RL Zoo's stock algorithms write it: nothing says whether it has ended."""
    params = folder / "CartPole-v1"
    params.mkdir(parents=True)
    (params / "args.yml").write_text(f"algo: ppo\nenv: CartPole-v1\nn_timesteps: {n_timesteps}\n", encoding="utf-8")
    monitor = folder / "0.monitor.csv"
    monitor.write_text(f'#{{"t_start": {time.time()}, "env_id": "CartPole-v1"}}\nr,l,t\n', encoding="utf-8")
    add_episodes(folder, lengths)


def add_episodes(folder, lengths):
    with (folder / "0.monitor.csv").open("a", encoding="utf-8") as file:
        file.writelines(f"{length},{length},1.0\n" for length in lengths)
