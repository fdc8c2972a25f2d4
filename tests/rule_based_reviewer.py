"""Stands in for a language model: reads a prompt with the report of a PPO run, and says which setting to change.

It knows a few rules, and nothing about the run but the text.
"""

import re
import sys

import yaml

SCORES = ("end of training", "last evaluation")


def section(report: str, title: str) -> str:
    return re.split(r"^## ", report.split(f"## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def number(text: str) -> float:
    return float(text.split(" ")[0].replace(",", ""))


def table(text: str) -> dict[str, list[str]]:
    """Rows by their first cell."""
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]
    return {row[0]: row[1:] for row in rows}


def setting_to_change(report: str) -> tuple[str, str]:
    """The setting, and what shows it."""
    config = yaml.safe_load(section(report, "Config").split("```yaml\n")[1].split("```")[0])
    metrics = {name: cells for name, cells in table(section(report, "All numbers")).items() if "/" in name}
    highest = {name: number(cells[3]) for name, cells in metrics.items() if cells[3]}
    scores = {name: number(cells[0]) for name, cells in table(section(report, "Score")).items() if name in SCORES}
    trained, evaluated = scores["end of training"], scores["last evaluation"]
    if highest["env/reward_max"] > 100:
        return "env_wrapper", f"rewards of {highest['env/reward_max']}"
    if highest["rollout/return_std"] < 1e-6:
        return "gamma", "all returns are equal"
    if highest["train/approx_kl"] > 0.3:
        too_high = "learning_rate" if config["learning_rate"] > 0.01 else "n_epochs"
        return too_high, f"the KL divergence is {highest['train/approx_kl']}"
    if evaluated < trained / 2:
        return "eval_env_kwargs", f"evaluations score {evaluated}, training {trained}"
    if "score is still rising" in section(report, "What to try next"):
        return "n_timesteps", f"the score rose to {trained} at the end"
    return "nothing", "no rule applies"


if __name__ == "__main__":
    setting, evidence = setting_to_change(sys.stdin.read())
    print(f"Change {setting}: {evidence}.")
