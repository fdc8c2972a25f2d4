"""Run folders for tests of reports, and what their reports show."""

import json
import math
import re
import shutil
from collections import OrderedDict

import numpy as np
import yaml


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / folder.name)


def rows_of(folder):
    return [json.loads(line) for line in (folder / "progress.json").read_text().splitlines()]


def logged(folder, name):
    return [row[name] for row in rows_of(folder) if name in row]


def part_of(report, title, level="## "):
    return re.split(rf"^{level}", report.split(f"{level}{title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def cells_of(line):
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def tables_of(text):
    """All tables: a list of their lines each."""
    found = re.findall(r"(?:^\|.*\|\n?)+", text, flags=re.MULTILINE)
    return [[cells_of(line) for line in table.strip().split("\n") if not line.startswith("| ---")] for table in found]


def is_shown(cell, value):
    """Whether a cell is the value, with four digits."""
    if not math.isfinite(value):
        return cell.lower() == str(value).lower()
    return math.isclose(float(cell.replace(",", "")), value, rel_tol=6e-4, abs_tol=1e-12)


def zoo_run(folder, scores=None, n_timesteps=100_000, **args):
    """A run folder as RL Zoo makes it, with a curve of the score."""
    params = folder / "CartPole-v1"
    params.mkdir(parents=True)
    written = {"algo": "ppo_ext", "env": "CartPole-v1", "seed": 7, "n_timesteps": -1, "log_folder": "logs", **args}
    (params / "args.yml").write_text(yaml.dump(OrderedDict(written)))
    (params / "config.yml").write_text(
        yaml.dump(OrderedDict(n_timesteps=n_timesteps, policy="MlpPolicy", shape=(1, 2)))
    )
    (params / "command.txt").write_text("python -m rl_zoo3.train --algo ppo_ext --env CartPole-v1")
    scores = np.ones(50) if scores is None else scores
    steps = np.linspace(n_timesteps / len(scores), n_timesteps, len(scores)).astype(int)
    rows = [
        {"time/total_timesteps": int(step), "time/episodes": 100 + index, "rollout/ep_rew_mean": float(score)}
        for index, (step, score) in enumerate(zip(steps, scores, strict=True))
    ]
    (folder / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder
