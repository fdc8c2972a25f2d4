"""Writes docs/metrics.md from the catalogue of metrics.

python scripts/docs/metrics_doc.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sb3_ext.metrics.catalogue import Bound, MetricInfo, groups, metrics

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

INFERRED = {
    "actions": "the action space",
    "entropy": "0 to ln(n), discrete actions",
    "entropy_loss": "-ln(n) to 0, discrete actions",
    "episode_length": "the time limit",
    "observations": "the observation space, or where it is clipped",
    "probability": "0 to 1",
    "reward": "where it is clipped",
}

HEAD = """\
# Metrics

<!-- Written by scripts/docs/metrics_doc.py from sb3_ext/metrics/metrics.yml: change that file, and run the script. -->

Every number that a training logs, what it means, and what to turn when it is off. The same catalogue orders and
formats the table, says which curves the report and the W&B dashboard show, and which values the [alerts](alerts.md)
take for impossible. A metric that is not in it still appears, at the end of its group.

Numbers go to SB3's logger (`self.logger.record("group/name", value)` in a callback of yours), and from there to the
table, `progress.csv`, `progress.json`, TensorBoard and W&B alike. Names with a `*` are families. **Bold** ones are
those that everyone looks at: they come first, and are on the plain lines where the output is not a terminal.

## The table
On a terminal, training shows a live table: the groups below, the latest values, an arrow for the change since the row
before (green is better, red is worse, where that can be said), the curve so far, and how far training is. Values that
the last rows did not have are dim. An alert marks its metric's line in red, with its id. What does not fit the
terminal is left out, least important first. When the output is not a terminal, each row is one plain line.

```yaml
CartPole-v1:
  n_timesteps: 100000
  policy: MlpPolicy
  ext:
    table: true                # false: SB3's table
    # table:
    #   live: auto             # true: always a live table, false: always plain lines
    #   every_seconds: 1       # plain lines are at least this far apart; one with a new alert comes at once
    #   sparklines: true       # the curves
```

With stock algorithms too, through RL Zoo's `callback:` line or in Python:

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

It stands in for SB3's table: with `verbose=0` there is none. It is drawn so seldom that it costs about 1 % of the
time at most. With RL Zoo's `-P` it draws no second progress bar, and prints tables above that one.

## Numbers from info
Environments put numbers into `info` that no reward shows: a distance, a level, a count. `metrics: {info: [...]}` logs
them, for all algorithms and kinds of vectorised environments:

```yaml
Bandit-v0:
  n_timesteps: 10000
  policy: MlpPolicy
  n_envs: 8
  n_steps: 25
  batch_size: 100
  ext:
    metrics:
      info: [regret, episode.l]        # a.b is info["a"]["b"], or info["a.b"] where there is one
```

`info/<key>` is the mean over the steps since the last row whose info has the key: over all steps for a number that
every step has, over the ended episodes for one that only the last step of an episode has. Where all steps have it,
`info/<key>_at_end` is the mean over the last steps of episodes, for numbers that grow within an episode. A key that a
whole episode went by without is reported in a warning, with the numbers that were there. In Python it is
`Metrics(info=["regret"])`.
"""

GRADIENTS = """\
## How to read gradients
The gradient says in which direction, and how strongly, the loss wants to move each weight. Its norm is one number for
"how strongly". What matters is not its size by itself, but how it changes, and the parts against each other.

- **`train/grad_norm` against `max_grad_norm`.** Gradients above `max_grad_norm` (0.5 for PPO) are scaled down to it.
  Sometimes above it is what clipping is for. Far above it at every update means that only the direction is used, and
  the learning rate alone sets the size of a step: the loss is badly scaled. Normalise rewards or set
  `normalize_values`, which helps more than raising the limit. Never near it: clipping does nothing, and that is fine.
- **Spikes.** A few are usual when the agent meets something new. Spikes that come with a drop in the score or a jump
  of `train/approx_kl`: lower `learning_rate`, or `max_grad_norm`.
- **Growing without end** (exploding): returns grow faster than the value function learns, or weights do. Look at
  `train/value_loss` and `rollout/return_max`; normalise rewards, lower `learning_rate`. NaN comes next.
- **Falling to almost 0** (vanishing): fine when the score is good, and the learning rate is at the end of its
  schedule. When the score is bad, the agent is stuck. Is `policy/entropy` near 0? Then it stopped exploring. Is
  `rollout/advantage_std` near 0? Then no action looks better than another: the reward is too rare. Is
  `policy/dead_relus` high? Then nothing flows through the network.
- **Actor against critic** (`train/grad_norm_actor`, `train/grad_norm_critic`). Ten times apart is common. In a
  network that both share, a critic a hundred times above the actor leaves the actor with what the critic wants: lower
  `vf_coef`, set `normalize_values`, or give each its own network (`policy_kwargs: {net_arch: {pi: [64, 64], vf: [64,
  64]}}`). In separate networks they still share `max_grad_norm`: a large critic gradient shrinks the actor's step.
  REINFORCE clips them apart.
- **Stock algorithms** tell no norms. There `train/grad_norm_clipped` is what the last minibatch left behind, after
  clipping: at `max_grad_norm` it was clipped, and by how much can't be seen.
- **Histograms** (`gradients/*` in W&B). A healthy layer is a narrow hill around 0 that gets narrower as training goes
  on. All of it in one bar at 0: no gradient reaches the layer. Wide, with far outliers: a few samples rule the
  update; larger batches or clipped rewards help. Layers near the input that are much narrower than those near the
  output: the gradient vanishes on its way.

What the norm can't tell is success: it does not go to 0 when an agent has learned, because the data stays noisy, and
a norm that falls nicely can belong to an agent that has given up. Read it beside the score.
"""


def document() -> str:
    """The whole text."""
    return "\n".join([HEAD, *(_group_section(group.name) for group in groups()), GRADIENTS])


def _group_section(name: str) -> str:
    group = next(group for group in groups() if group.name == name)
    lines = [
        f"## {group.title}: `{name}/`",
        group.about,
        "",
        "| metric | meaning | how to read it | unit | bounds |",
        "|---|---|---|---|---|",
    ]
    entries = sorted((info for info in metrics() if info.group == name), key=lambda info: info.priority)
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
