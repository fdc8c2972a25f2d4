"""PPO in a single file: vectorised environments, two MLPs, autograd, Adam. No framework, no options.

python scripts/benchmarks/plain_loop.py --env CartPole-v1 --seed 1      # trains and prints episode rewards
python scripts/benchmarks/plain_loop.py --env CartPole-v1 --seconds 4   # measures its speed

peers.py measures it as an example of the training loops that people write themselves. Hyperparameters are RL Zoo's for
PPO; losses, initial weights and diagnostics are SB3's. One difference: truncated episodes count as terminated, without
bootstrapping.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from torch import nn
from torch.distributions import Categorical


@dataclass(frozen=True)
class Hyperparams:
    """PPO's, by SB3's names and with its defaults; ``lin_0.001`` falls from 0.001 to 0 over the training."""

    n_envs: int = 1
    n_timesteps: float = 1e6
    n_steps: int = 2048
    batch_size: int = 64
    n_epochs: int = 10
    gamma: float = 0.99
    gae_lambda: float = 0.95
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    learning_rate: float | str = 3e-4
    clip_range: float | str = 0.2
    policy: str = "MlpPolicy"

    @classmethod
    def read(cls, section: dict[str, Any]) -> Hyperparams:
        """From a section of a hyperparameter file; one that asks for more than this loop has is refused."""
        unknown = sorted(set(section) - set(cls.__dataclass_fields__))
        if unknown or section.get("policy", "MlpPolicy") != "MlpPolicy":
            raise SystemExit(f"The plain loop has an MlpPolicy and no {', '.join(unknown) or section['policy']}.")
        return cls(**section)


def schedule(value: float | str) -> Callable[[float], float]:
    """From the share of the training that is left to the value."""
    if isinstance(value, str):
        initial = float(value.removeprefix("lin_"))
        return lambda remaining: initial * remaining
    return lambda remaining: value


def perceptron(n_inputs: int, n_outputs: int, gain: float) -> nn.Sequential:
    layers = [nn.Linear(n_inputs, 64), nn.Linear(64, 64), nn.Linear(64, n_outputs)]
    for layer, layer_gain in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, layer_gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


class Agent(nn.Module):
    """An actor and a critic that share nothing."""

    def __init__(self, n_inputs: int, n_actions: int):
        super().__init__()
        self.actor = perceptron(n_inputs, n_actions, gain=0.01)
        self.critic = perceptron(n_inputs, 1, gain=1.0)

    def forward(self, obs: th.Tensor) -> tuple[Categorical, th.Tensor]:
        return Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1)


class PlainLoop:
    """
    Collects rollouts and learns from them.

    :param env_id: environment id, with vectors to observe and ``Discrete`` actions
    :param hyperparams: PPO's
    :param seed: of environments, weights, actions and minibatches
    """

    def __init__(self, env_id: str, hyperparams: Hyperparams, seed: int = 0):
        th.manual_seed(seed)
        self.hyperparams = hyperparams
        makers = [lambda: RecordEpisodeStatistics(gym.make(env_id))] * hyperparams.n_envs
        self.envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        observations, actions = self.envs.single_observation_space, self.envs.single_action_space
        if not (isinstance(observations, Box) and len(observations.shape) == 1 and isinstance(actions, Discrete)):
            raise SystemExit(f"The plain loop needs a vector to observe and Discrete actions, not {env_id}'s.")
        self.agent = Agent(observations.shape[0], int(actions.n))
        self.learning_rate, self.clip_range = schedule(hyperparams.learning_rate), schedule(hyperparams.clip_range)
        self.optimizer = th.optim.Adam(self.agent.parameters(), lr=self.learning_rate(1.0), eps=1e-5)
        size = (hyperparams.n_steps, hyperparams.n_envs)
        self.obs = th.zeros((*size, *observations.shape))
        self.actions = th.zeros(size, dtype=th.long)
        self.log_probs, self.rewards, self.values, self.dones = (th.zeros(size) for _ in range(4))
        self.advantages = th.zeros(size)
        self.next_obs = th.as_tensor(self.envs.reset(seed=seed)[0])
        self.episode_returns: deque[float] = deque(maxlen=100)
        self.env_seconds = 0.0

    @th.no_grad()
    def collect(self) -> None:
        """Play ``n_steps`` in each environment, and estimate how good the actions were."""
        for step in range(self.hyperparams.n_steps):
            distribution, self.values[step] = self.agent(self.next_obs)
            action = distribution.sample()
            self.obs[step], self.actions[step] = self.next_obs, action
            self.log_probs[step] = distribution.log_prob(action)
            start = time.perf_counter()
            obs, rewards, terminated, truncated, infos = self.envs.step(action.numpy())
            self.env_seconds += time.perf_counter() - start
            self.next_obs = th.as_tensor(obs)
            self.rewards[step] = th.as_tensor(rewards)
            self.dones[step] = th.as_tensor(terminated | truncated)
            if "final_info" in infos:
                episodes = infos["final_info"]["episode"]
                self.episode_returns.extend(episodes["r"][infos["_final_info"]])
        self.estimate_advantages()

    def estimate_advantages(self) -> None:
        """Generalised advantage estimation, from the rollout's end backwards."""
        gamma, gae_lambda = self.hyperparams.gamma, self.hyperparams.gae_lambda
        next_value, next_advantage = self.agent.critic(self.next_obs).squeeze(-1), th.zeros(self.hyperparams.n_envs)
        for step in reversed(range(self.hyperparams.n_steps)):
            goes_on = 1.0 - self.dones[step]
            error = self.rewards[step] + gamma * goes_on * next_value - self.values[step]
            next_advantage = error + gamma * gae_lambda * goes_on * next_advantage
            self.advantages[step], next_value = next_advantage, self.values[step]

    def update(self, remaining: float = 1.0) -> dict[str, float]:
        """
        Learn from the rollout.

        :param remaining: share of the training that is left
        :return: means over the minibatches
        """
        clip_range = self.clip_range(remaining)
        self.optimizer.param_groups[0]["lr"] = self.learning_rate(remaining)
        obs, actions, log_probs = self.obs.flatten(0, 1), self.actions.flatten(), self.log_probs.flatten()
        advantages, returns = self.advantages.flatten(), (self.advantages + self.values).flatten()
        diagnostics = []
        for _ in range(self.hyperparams.n_epochs):
            for batch in th.randperm(len(returns)).split(self.hyperparams.batch_size):
                minibatch = [part[batch] for part in (obs, actions, log_probs, advantages, returns)]
                loss, found = self.loss(clip_range, *minibatch)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), self.hyperparams.max_grad_norm)
                self.optimizer.step()
                diagnostics.append(found)
        return {name: float(np.mean([found[name] for found in diagnostics])) for name in diagnostics[0]}

    def loss(
        self,
        clip_range: float,
        obs: th.Tensor,
        actions: th.Tensor,
        old_log_probs: th.Tensor,
        advantages: th.Tensor,
        returns: th.Tensor,
    ) -> tuple[th.Tensor, dict[str, float]]:
        """PPO's loss of a minibatch, and what to say about it."""
        distribution, values = self.agent(obs)
        log_ratio = distribution.log_prob(actions) - old_log_probs
        ratio = log_ratio.exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
        policy_loss = -th.min(advantages * ratio, advantages * clipped).mean()
        value_loss = nn.functional.mse_loss(values, returns)
        entropy = distribution.entropy().mean()
        loss = policy_loss - self.hyperparams.ent_coef * entropy + self.hyperparams.vf_coef * value_loss
        with th.no_grad():
            found = {"policy_loss": policy_loss.item(), "value_loss": value_loss.item(), "entropy": entropy.item()}
            found["approx_kl"] = (ratio - 1 - log_ratio).mean().item()
            found["clip_fraction"] = ((ratio - 1).abs() > clip_range).float().mean().item()
        return loss, found


def train(loop: PlainLoop) -> None:
    """All of ``n_timesteps``, with ten lines about it."""
    hyperparams = loop.hyperparams
    size = hyperparams.n_steps * hyperparams.n_envs
    n_rollouts = -(-int(hyperparams.n_timesteps) // size)
    for number in range(1, n_rollouts + 1):
        loop.collect()
        found = loop.update(max(0.0, 1 - number * size / hyperparams.n_timesteps))
        if number * 10 // n_rollouts > (number - 1) * 10 // n_rollouts:
            diagnostics = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
            mean = np.mean(loop.episode_returns)
            n_episodes = len(loop.episode_returns)
            print(f"{number * size:,} steps: mean return of the last {n_episodes} episodes {mean:.1f}; {diagnostics}")


def measure(loop: PlainLoop, seconds: float) -> dict[str, float]:
    """Seconds a step, after a first rollout and update that don't count."""
    loop.collect()
    loop.update()
    loop.env_seconds = 0.0
    n_steps, collecting, updating = 0, 0.0, 0.0
    while collecting + updating < seconds:
        start = time.perf_counter()
        loop.collect()
        middle = time.perf_counter()
        loop.update()
        n_steps += loop.hyperparams.n_steps * loop.hyperparams.n_envs
        collecting += middle - start
        updating += time.perf_counter() - middle
    inference = (collecting - loop.env_seconds) / n_steps
    return {"env": loop.env_seconds / n_steps, "inference": inference, "update": updating / n_steps}


def main() -> None:
    from speed import memory, zoo_section

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1", help="environment id in RL Zoo's hyperparams/ppo.yml")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--seconds", type=float, help="measure for this long and print the result as JSON")
    args = parser.parse_args()
    th.set_num_threads(args.threads)
    loop = PlainLoop(args.env, Hyperparams.read(zoo_section(args.env)), args.seed)
    if args.seconds:
        print(json.dumps({**measure(loop, args.seconds), "memory": memory()}))
    else:
        train(loop)


if __name__ == "__main__":
    main()
