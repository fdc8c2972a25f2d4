"""Policies for vectors: actor and critic are separate multi-layer perceptrons, which the kernel computes."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from torch import nn

from sb3_ext.common.fast_path import KLLimit, UpdateResult
from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast.adaptive_choice import AdaptiveChoice
from sb3_ext.fast.kernel import N_METRICS, Kernel
from sb3_ext.fast.optimizer import OptimizerArrays, OptimizerState, gradients_of
from sb3_ext.fast.policy import BERNOULLI, GAUSSIAN, GSDE, FastLoss, FastPolicy, Rollout

__all__ = ["FastMlpPolicy"]

_ACTIVATIONS: dict[type[nn.Module], int] = {nn.Tanh: 0, nn.ReLU: 1}
_MOST_LAYERS = 16
#: Minibatches of an update that is worth a second thread
_MANY = 8
_NO_LIMIT = (False, False, False, 0.0)
_NO_OPTIMIZER = (2, 0.0, 0.0, 0.0, 0.0)


class FastMlpPolicy(FastPolicy):
    """
    In rollouts it only acts; values and log-probabilities are computed for all steps at the end. With PopArt, the
    kernel's values are normalised, as the loss needs them.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__(policy)
        extractor = policy.mlp_extractor
        self._actor = _parameters(extractor.policy_net, policy.action_net)
        self._critic = _parameters(extractor.value_net, policy.value_net)
        if self._head.kind in (GAUSSIAN, GSDE):
            self._actor.append(policy.log_std)
        self._actor_arrays, self._critic_arrays = (
            [parameter.detach().numpy() for parameter in parameters] for parameters in (self._actor, self._critic)
        )
        every = [*self._actor, *self._critic]
        can_step = OptimizerState.can_do(policy.optimizer, every)
        self._optimizer = OptimizerState(policy.optimizer, every) if can_step else None
        # PopArt's head is a linear layer whose output is scaled to the returns' units
        self._popart = policy.value_net if isinstance(policy.value_net, PopArtHead) else None
        self._is_one_hot = isinstance(policy.observation_space, spaces.Discrete)
        #: Whether an update is faster on one thread (0) or with the critic on another one (1)
        self.thread_choice = AdaptiveChoice()
        self._kernel = Kernel(
            _widths(extractor.policy_net, policy.action_net),
            _widths(extractor.value_net, policy.value_net),
            _activation(extractor.policy_net) or _activation(extractor.value_net),
            self._head.kind,
            self._head.sizes,
            self._is_one_hot,
        )

    @staticmethod
    def why_not(policy: ActorCriticPolicy) -> str | None:
        """:return: why the policy is not supported, as the end of a sentence; ``None`` when it is"""
        if type(policy.features_extractor) is not FlattenExtractor:
            return f"of the features extractor {type(policy.features_extractor).__name__}"
        if type(policy.mlp_extractor) is not MlpExtractor:
            return f"of the network {type(policy.mlp_extractor).__name__}"
        kinds: set[type[nn.Module]] = set()  # of both networks: the kernel has one
        for network in (policy.mlp_extractor.value_net, policy.mlp_extractor.policy_net):
            layers = list(network)
            kinds |= {type(layer) for layer in layers[1::2]}
            alternate = all(type(layer) is nn.Linear and layer.bias is not None for layer in layers[::2])
            if not alternate or len(layers) % 2 or len(kinds) > 1 or not kinds <= set(_ACTIVATIONS):
                return f"of the layers {', '.join(dict.fromkeys(type(layer).__name__ for layer in layers))}"
            if len(layers) // 2 >= _MOST_LAYERS:
                return f"it has more than {_MOST_LAYERS - 1} hidden layers"
        if policy.use_sde and not layers:
            return "gSDE needs a hidden layer"
        if any(parameter.dtype != th.float32 for parameter in policy.parameters()):
            return "its parameters are not float32"
        return None

    def act(self, observations: np.ndarray) -> tuple[np.ndarray, None, None]:
        return self._choose(observations, deterministic=False), None, None

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        shape = self._policy.observation_space.shape or ()
        if not isinstance(observation, np.ndarray) or observation.shape[1:] != shape or observation.ndim == len(shape):
            return super().predict(observation, state, episode_start, deterministic)
        actions = self._choose(observation, deterministic)
        space = self._policy.action_space
        return np.clip(actions, space.low, space.high) if isinstance(space, spaces.Box) else actions, state

    def _choose(self, observations: np.ndarray, deterministic: bool) -> np.ndarray:
        rows = self.prepare(observations)
        n = len(rows)
        out = self.empty_actions(n)
        if self._head.kind == BERNOULLI:
            self._kernel.act(self._actor_arrays, rows, None, out)
            probabilities = th.from_numpy(out).sigmoid_()
            return (th.round(probabilities) if deterministic else th.bernoulli(probabilities)).numpy()
        self._kernel.act(self._actor_arrays, rows, None if deterministic else self.draw(n).numpy(), out)
        return out

    def predict_values(self, observations: th.Tensor) -> th.Tensor:
        values, _ = self.evaluate(self.prepare(observations.numpy()), None)
        return th.from_numpy(self._denormalize(values)).view(-1, 1)

    def evaluate(self, observations: np.ndarray, actions: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        values, log_probs = np.empty(len(observations), np.float32), np.empty(len(observations), np.float32)
        self._kernel.evaluate(self._actor_arrays, self._critic_arrays, observations, actions, values, log_probs)
        return values, log_probs

    def evaluate_rollout(self, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, log_probs = super().evaluate_rollout(observations, actions)
        return self._denormalize(values), log_probs

    def _denormalize(self, values: np.ndarray) -> np.ndarray:
        if self._popart is None:
            return values
        mean, std = (statistic.item() for statistic in self._popart.statistics())
        return values * np.float32(std) + np.float32(mean)

    def prepare(self, observations: np.ndarray) -> np.ndarray:
        """One float vector per observation, as SB3 makes them; or the position of the 1 in a one-hot vector."""
        if self._is_one_hot:
            return np.ascontiguousarray(observations.reshape(-1), dtype=np.int64)
        return np.ascontiguousarray(observations.reshape(len(observations), -1), dtype=np.float32)

    def update(
        self,
        rollout: Rollout,
        loss: FastLoss,
        bounds: np.ndarray,
        draw: Callable[[], np.ndarray],
        n_epochs: int,
        limit: KLLimit | None,
    ) -> UpdateResult:
        optimizer = self._optimizer
        if optimizer is None:
            return super().update(rollout, loss, bounds, draw, n_epochs, limit)
        before = None if limit is None else np.random.get_state()
        orders = np.stack([draw() for _ in range(n_epochs)])
        per_epoch = len(bounds) - 1
        metrics, count = np.empty((n_epochs * per_epoch, N_METRICS)), np.array([optimizer.n_steps])
        flags = (
            _NO_LIMIT if limit is None else (limit.before_steps, not limit.before_steps, limit.rollback, limit.value)
        )
        option = self.thread_choice.choose() if self.may_thread and len(metrics) >= _MANY else 0
        start = time.perf_counter()
        try:
            n_minibatches, n_steps, stopped, last_kl = self._kernel.update(
                optimizer.arrays(self._actor),
                optimizer.arrays(self._critic),
                *rollout,
                orders,
                bounds,
                metrics,
                count,
                n_epochs,
                loss,
                flags,
                optimizer.settings(),
                bool(option),
            )
        finally:  # also on Ctrl-C
            optimizer.n_steps = count[0]
        self.thread_choice.tell(option, (time.perf_counter() - start) / n_minibatches)
        if stopped and before is not None:
            # SB3 draws the order of an epoch when it begins: leave the random numbers as it would
            np.random.set_state(before)
            for _ in range(-(-n_minibatches // per_epoch)):
                draw()
        values = {name: metrics[:n_minibatches, place].tolist() for name, place in loss.metrics.items()}
        values |= {name: metrics[:n_steps, place].tolist() for name, place in loss.norms.items()}
        return UpdateResult(n_steps, -(-n_steps // per_epoch), stopped, last_kl, values)

    def differentiate(self, rollout: Rollout, rows: np.ndarray, loss: FastLoss) -> np.ndarray:
        metrics = np.empty((1, N_METRICS))
        actor = OptimizerArrays(self._actor_arrays, gradients_of(self._actor), None, None)
        critic = OptimizerArrays(self._critic_arrays, gradients_of(self._critic), None, None)
        bounds = np.array([0, len(rows)])
        whole = loss._replace(max_norm=np.inf)  # clipped later, with the step
        self._kernel.update(
            actor, critic, *rollout, rows, bounds, metrics, np.zeros(1), 1, whole, _NO_LIMIT, _NO_OPTIMIZER, False
        )
        return metrics[0]


def _parameters(hidden: nn.Sequential, last: Any) -> list[nn.Parameter]:
    """Weights and biases from the first layer to the last, in the kernel's order."""
    linear = [layer for layer in hidden if isinstance(layer, nn.Linear)]
    return [parameter for layer in (*linear, last) for parameter in (layer.weight, layer.bias)]


def _widths(hidden: nn.Sequential, last: Any) -> tuple[int, ...]:
    linear = [*(layer for layer in hidden if isinstance(layer, nn.Linear)), last]
    return (linear[0].in_features, *(layer.out_features for layer in linear))


def _activation(hidden: nn.Sequential) -> int:
    return next((_ACTIVATIONS[type(layer)] for layer in hidden if type(layer) in _ACTIVATIONS), 0)
