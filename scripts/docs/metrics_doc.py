"""Writes docs/metrics.md from the catalogue of metrics.

python scripts/docs/metrics_doc.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sb3_ext.metrics.catalogue import Bound, MetricInfo, catalogue

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

INFERRED = {
    "actions": "the action space",
    "entropy": "0 to ln(n), discrete actions",
    "entropy_loss": "-ln(n) to 0, discrete actions",
    "episode_length": "the time limit",
    "observations": "the observation space, or the clip range",
    "probability": "0 to 1",
    "reward": "the clip range",
}

HEAD = """\
# Metrics

<!-- Written by scripts/docs/metrics_doc.py from sb3_ext/metrics/metrics.yml: change that file, and run the script. -->

This page lists every number that a training logs: what it means, how to read it, and what to change if it is off.

The numbers go to SB3's logger, and from there to the table, `progress.csv`, `progress.json`, TensorBoard and W&B. To
log your own, call `self.logger.record("group/name", value)` in a callback; it appears at the end of its group. Names
with a `*` are families. The most important metrics are **bold**: they come first, and are on the plain lines if the
output is not a terminal. The same catalogue orders and formats the table, selects the curves in the report and the W&B
dashboard, and tells the [alerts](alerts.md) which values are impossible.

## The table
In a terminal, training shows a live table. It has the groups below, with the latest values, an arrow for the change
since the last row (green is better, red is worse, where that is clear), the curve so far, and the progress. Values
that are missing from the last rows are dim. An alert marks the line of its metric in red, with the alert's id. If the
terminal is too small, the least important lines are left out. If the output is not a terminal, each row is one plain
line.

```yaml
CartPole-v1:
  n_timesteps: 100000
  policy: MlpPolicy
  ext:
    table: true                # false: SB3's table
    # table:
    #   live: auto             # true: always a live table, false: always plain lines
    #   every_seconds: 1       # time between plain lines; a line with a new alert comes at once
    #   sparklines: true       # the curves
```

It works with stock algorithms too, through RL Zoo's `callback:` or in Python:

```yaml
CartPole-v1:
  n_timesteps: 100000
  policy: MlpPolicy
  callback:
    - sb3_ext.callbacks.Table:
        every_seconds: 10
```

```python
from stable_baselines3 import PPO
from sb3_ext.callbacks.table.callback import Table

PPO("MlpPolicy", "CartPole-v1", verbose=1).learn(50_000, callback=Table())
```

It replaces SB3's table, so there is none with `verbose=0`. It limits how often it is drawn, so that it costs about 1 %
of the time at most. With RL Zoo's `-P`, it prints tables above that progress bar and has no progress bar of its own.

## Numbers from info
Environments report numbers in `info` that the reward doesn't show: a distance, a level, a count. `metrics: {info:
[...]}` logs them, for all algorithms and kinds of vectorised environments:

```yaml
Bandit-v0:
  n_timesteps: 10000
  policy: MlpPolicy
  n_envs: 8
  n_steps: 25
  batch_size: 100
  ext:
    metrics:
      info: [regret, episode.l]        # a.b is info["a"]["b"], or info["a.b"] if it exists
```

`info/<key>` is the mean over the steps since the last row whose `info` has the key. So it is a mean over all steps if
every step has it, and over episodes if only their last step has it. If every step has it, `info/<key>_at_end` is the
mean over the last steps of episodes, for numbers that grow within an episode. If a whole episode lacks the key, you
get a warning with the numbers that `info` has. In Python, write `Metrics(info=["regret"])`.
"""

GRADIENTS = """\
## How to read gradients
The gradient says in which direction, and how strongly, the loss pulls on each weight. Its norm sums up "how strongly"
in one number. Its size alone means little. What matters is how it changes, and how its parts compare.

- **`train/grad_norm` and `max_grad_norm`.** Gradients above `max_grad_norm` (0.5 for PPO) are scaled down to it. That
  is fine now and then; it is what clipping is for. If the norm is far above it in every update, only the direction
  counts and the learning rate alone sets the step size: the loss is badly scaled. Normalise rewards or set
  `normalize_values`, which helps more than raising the limit. If the norm never gets near it, clipping does nothing,
  which is fine too.
- **Spikes.** A few are normal when the agent meets something new. If they come with a drop in the score or a jump in
  `train/approx_kl`, lower `learning_rate` or `max_grad_norm`.
- **Exploding: it keeps growing.** Returns grow faster than the value function learns, or weights grow. Look at
  `train/value_loss` and `rollout/return_max`, normalise rewards, and lower `learning_rate`. Otherwise NaN comes next.
- **Vanishing: it falls to almost 0.** That is fine if the score is good, or if the learning rate is at the end of its
  schedule. If the score is bad, the agent is stuck. If `policy/entropy` is near 0, it has stopped exploring. If
  `rollout/advantage_std` is near 0, no action looks better than another: rewards are too rare. If `policy/dead_relus`
  is high, nothing flows through the network.
- **Actor and critic** (`train/grad_norm_actor`, `train/grad_norm_critic`). A factor of ten between them is common. If
  they share a network and the critic's norm is a hundred times the actor's, the critic decides what the network
  learns: lower `vf_coef`, set `normalize_values`, or give each its own network (`policy_kwargs: {net_arch: {pi: [64,
  64], vf: [64, 64]}}`). Separate networks still share `max_grad_norm`, so a large critic gradient shrinks the actor's
  step. REINFORCE clips them separately.
- **Stock algorithms** don't report norms. `train/grad_norm_clipped` is what the last minibatch left behind, after
  clipping. If it equals `max_grad_norm`, it was clipped, but you can't see by how much.
- **Histograms** (`gradients/*` in W&B). In a healthy layer, it is a narrow hill around 0 that gets narrower during
  training. If it is a single bar at 0, no gradient reaches the layer. If it is wide with far outliers, a few samples
  dominate the update: use larger batches or clip rewards. If layers near the input are much narrower than those near
  the output, the gradient vanishes on the way.

The norm doesn't measure success. It doesn't go to 0 when an agent has learned, because the data stays noisy, and a
norm that falls smoothly can belong to an agent that has given up. Read it together with the score.
"""


def document() -> str:
    """The whole text."""
    return "\n".join([HEAD, *(_group_section(group.name) for group in catalogue().groups), GRADIENTS])


def _group_section(name: str) -> str:
    group = next(group for group in catalogue().groups if group.name == name)
    lines = [
        f"## {group.title}: `{name}/`",
        group.about,
        "",
        "| metric | meaning | how to read it | unit | bounds |",
        "|---|---|---|---|---|",
    ]
    entries = sorted((info for info in catalogue().metrics if info.group == name), key=lambda info: info.priority)
    return "\n".join([*lines, *map(_line, entries), ""])


def _line(info: MetricInfo) -> str:
    name = f"**`{info.name}`**" if info.highlight else f"`{info.name}`"
    cells = [name, info.meaning, info.read, info.unit, _bounds(info)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _bounds(info: MetricInfo) -> str:
    low, high = info.bounds
    text = INFERRED[low] if isinstance(low, str) and low == high else _sides(low, high)
    return ", ".join(part for part in (text, "never decreases" if info.never_decreases else "") if part)


def _sides(low: Bound, high: Bound) -> str:
    low_text, high_text = (INFERRED.get(str(side), str(side)) for side in (low, high))
    if low is None:
        return "" if high is None else f"to {high_text}"
    return f"from {low_text}" if high is None else f"{low_text} to {high_text}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    DOCUMENT.write_text(document(), encoding="utf-8")
    print(f"Wrote {DOCUMENT}")


if __name__ == "__main__":
    main()
