"""The card of a published agent: its results for programs and for people, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData

from sb3_ext.runs.record import RunRecord
from sb3_ext.runs.report.charts import markdown_table
from sb3_ext.zoo.registry import ALGORITHMS

__all__ = ["make_card"]

_SB3 = "https://github.com/DLR-RM/stable-baselines3"
_CAUTION = (
    "A model contains a pickle: loading it runs code from whoever made it. Only load models from people you trust.\n"
)


def make_card(run: RunRecord, repo: str, results: Mapping[str, Any], files: Mapping[str, Path]) -> str:
    """
    :param repo: ``owner/name``
    :param results: what ``results.json`` has
    :param files: what is published, by name
    """
    algo, env_id = str(run.algo), str(run.env_id)
    is_ours = algo in ALGORITHMS
    class_name = ALGORITHMS[algo][1] if is_ours else algo.upper()
    package = "sb3-ext" if is_ours else "rl_zoo3"
    reward = f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}"
    owner, _, name = repo.partition("/")
    model = next(name for name in files if name.endswith(".zip") and name != "train_eval_metrics.zip")
    rows = [
        ["mean reward", f"{reward} ({results['n_episodes']} episodes, seed {results['seed']})"],
        ["timesteps", f"{results['step']:,}"],
        ["seed of training", str(run.args.get("seed", "unknown"))],
    ]
    lines = [
        f"---\n{_metadata(class_name, env_id, reward).to_yaml()}\n---\n",
        f"# {class_name} on {env_id}\n",
        f"An agent trained with [Stable-Baselines3]({_SB3}), RL Zoo and {package}.\n",
        *([] if "replay.mp4" not in files else ["The replay is `replay.mp4`.\n"]),
        *([] if "plots/score.png" not in files else ["![training score](plots/score.png)\n"]),
        "## Results",
        *markdown_table(["", ""], rows),
        *([] if "report.md" not in files else ["\nThe whole training: [report.md](report.md)\n"]),
        "\n## Load it",
        _CAUTION,
        "```bash",
        f"pip install {package}",
        "# TRUST_REMOTE_CODE lets the download run code from its publisher",
        f"TRUST_REMOTE_CODE=True python -m rl_zoo3.load_from_hub --algo {algo} --env {env_id} -orga {owner} "
        f"--repo-name {name} -f logs/",
        f"python -m rl_zoo3.enjoy --algo {algo} --env {env_id} -f logs/",
        "```",
        *(_python(repo, model, class_name) if is_ours else []),
        "\n## Hyperparameters",
        "```yaml",
        yaml.safe_dump(_plain(_hyperparameters(run)), sort_keys=False, allow_unicode=True).rstrip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _hyperparameters(run: RunRecord) -> dict[str, Any]:
    """With the length that was trained: ``-n`` may have changed it."""
    planned = {} if run.planned_steps is None else {"n_timesteps": run.planned_steps}
    return {**run.config, **planned}


def _metadata(class_name: str, env_id: str, reward: str) -> ModelCardData:
    """What the Hub's pages and leaderboards read."""
    return ModelCardData(
        model_name=class_name,
        library_name="stable-baselines3",
        tags=[env_id, "deep-reinforcement-learning", "reinforcement-learning", "stable-baselines3", "sb3-ext"],
        eval_results=[
            EvalResult(
                task_type="reinforcement-learning",
                task_name="reinforcement-learning",
                dataset_name=env_id,
                dataset_type=env_id,
                metric_type="mean_reward",
                metric_value=reward,
                metric_name="mean_reward",
                verified=False,
            )
        ],
    )


def _python(repo: str, model: str, class_name: str) -> list[str]:
    return [
        "\n```python",
        "from huggingface_sb3 import load_from_hub",
        f"from sb3_ext import {class_name}\n",
        f'model = {class_name}.load(load_from_hub("{repo}", "{model}"))',
        "```",
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
