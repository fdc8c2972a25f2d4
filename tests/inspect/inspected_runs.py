"""Small runs for the inspector, trained by the command that users type."""

from sb3_ext.cli import main

SMALL = ["--seed", "1", "--verbose", "0", "--num-threads", "1", "--eval-freq", "128", "--save-freq", "128"]
ON_POLICY = ["n_envs:2", "n_steps:64", "batch_size:64"]


def train(logs, env, algo="ppo_ext", params=ON_POLICY, ext="report=False"):
    """Train a run in the log folder."""
    ours = [f"ext:dict({ext})"] if algo.endswith("_ext") else []
    command = ["train", "--algo", algo, "--env", env, "-n", "256", *SMALL, "-f", str(logs), "-params", *params, *ours]
    assert main(command) == 0
