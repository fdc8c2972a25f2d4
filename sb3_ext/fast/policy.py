"""A policy on the fast path: acting, evaluating and updating, on the policy's own parameters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from sb3_ext.common.epochs import MinibatchUpdate
from sb3_ext.common.fast_path import KLLimit, UpdateResult
from sb3_ext.common.updates import GradientNorms, PolicyBackup, approx_kl, split_parameters

__all__ = [
    "BERNOULLI",
    "GAUSSIAN",
    "GSDE",
    "FastLoss",
    "FastPolicy",
    "FastUpdate",
    "LossKind",
    "Rollout",
    "has_hooks",
    "head_of",
    "minibatch_bounds",
]


class LossKind(IntEnum):
    """In the kernel's order."""

    PPO = 0
    #: Log-probabilities weighted by advantages, and by the importance ratio, truncated at 1
    POLICY_GRADIENT = 1


class FastLoss(NamedTuple):
    """What the kernel needs to know of the loss, in its order. ``clip_vf`` is negative where values aren't clipped."""

    kind: LossKind
    normalize: bool = False
    huber: bool = False
    #: Clip the norms of actor and critic separately
    separate: bool = False
    clip: float = 0.0
    clip_vf: float = -1.0
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_norm: float = 0.5

    @property
    def metrics(self) -> dict[str, int]:
        """:return: place in the kernel's metrics of a minibatch, by name"""
        of_kind = {"approx_kl": 0, "clip_fraction": 1} if self.kind == LossKind.PPO else {"importance_weight": 2}
        return {**of_kind, "policy_gradient_loss": 3, "value_loss": 4, "entropy_loss": 5, "loss": 6}

    @property
    def norms(self) -> dict[str, int]:
        """:return: the same for what is known of those with a gradient step"""
        norms = {"grad_norm_actor": 7, "grad_norm_critic": 8, "grad_norm": 9}
        return {name: place for name, place in norms.items() if not self.separate or name != "grad_norm"}


class Rollout(NamedTuple):
    """
    :param observations: as the policy takes them
    :param actions: one row per sample
    :param columns: old value, old log-probability, advantage and return of each sample
    """

    observations: Any
    actions: np.ndarray
    columns: np.ndarray

    @property
    def n(self) -> int:
        return len(self.columns)


def minibatch_bounds(n: int, batch_size: int) -> np.ndarray:
    """:return: where SB3's minibatches begin, and the end of the last one"""
    return np.append(np.arange(0, n, batch_size), n)


class _Head(NamedTuple):
    """The kernel's number for a distribution of actions, and the number of outputs for each part of an action."""

    kind: int
    sizes: tuple[int, ...]


CATEGORICAL, GAUSSIAN, BERNOULLI, GSDE = 0, 1, 2, 3


def head_of(space: spaces.Space, use_sde: bool = False) -> _Head | None:
    """:return: ``None`` for actions that the kernel does not know"""
    if isinstance(space, spaces.Discrete):
        return _Head(CATEGORICAL, (int(space.n),))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return _Head(CATEGORICAL, tuple(int(n) for n in space.nvec))
    if isinstance(space, spaces.MultiBinary) and isinstance(space.n, (int, np.integer)):
        return _Head(BERNOULLI, (1,) * int(space.n))
    # A rollout buffer of another dtype rounds the actions after their log-probabilities were computed
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype in (np.float32, np.float64):
        return _Head(GSDE if use_sde else GAUSSIAN, (1,) * space.shape[0])
    return None


class FastPolicy(ABC):
    """:param policy: a policy that :func:`sb3_ext.fast.path.find_fast_policy` chose this class for"""

    #: Whether updates may use a second thread
    may_thread = False

    def __init__(self, policy: ActorCriticPolicy) -> None:
        self._policy = policy
        head = head_of(policy.action_space, policy.use_sde)
        assert head is not None
        self._head = head
        self._fingerprint = _fingerprint(policy)

    def is_of(self, policy: ActorCriticPolicy) -> bool:
        """:return: whether it was made for this policy, which has the same modules, parameters and optimizer as then"""
        return policy is self._policy and self._fingerprint == _fingerprint(policy)

    @abstractmethod
    def act(self, observations: np.ndarray) -> tuple[np.ndarray, th.Tensor | None, th.Tensor | None]:
        """
        :return: sampled actions, values and log-probabilities, as the policy's ``forward`` gives them; the last two may
            be left to :meth:`evaluate_rollout`
        """

    def empty_actions(self, n: int) -> np.ndarray:
        """:return: memory for actions of so many environments"""
        kind, sizes = self._head
        is_single = isinstance(self._policy.action_space, spaces.Discrete)
        return np.empty(n if is_single else (n, len(sizes)), np.int64 if kind == CATEGORICAL else np.float32)

    def draw(self, n: int) -> th.Tensor:
        """Random numbers, drawn by the same calls of torch as in SB3's distributions: a seed gives the same actions."""
        kind, sizes = self._head
        if kind == GSDE:
            return self._noise_matrices(n)
        noise = th.empty(n * sum(sizes))
        if kind == GAUSSIAN:
            return noise.normal_()
        if len(sizes) == 1:
            return noise.exponential_()
        for part in noise.split([n * size for size in sizes]):
            part.exponential_()
        return noise

    def _noise_matrices(self, n: int) -> th.Tensor:
        """gSDE's, which ``reset_noise`` has drawn. As in SB3, other numbers of environments share a matrix."""
        drawn: Any = self._policy.action_dist
        matrices, shared = drawn.exploration_matrices.detach(), drawn.exploration_mat.detach()
        return shared.expand(n, *shared.shape).contiguous() if n == 1 or n != len(matrices) else matrices

    def predict(self, observation: Any, *args: Any, **kwargs: Any) -> tuple[np.ndarray, Any]:
        """:return: what the policy's method of this name returns"""
        return type(self._policy).predict(self._policy, observation, *args, **kwargs)

    @th.no_grad()
    def predict_values(self, observations: th.Tensor) -> th.Tensor:
        """:return: values, as the policy's method of this name gives them"""
        return type(self._policy).predict_values(self._policy, observations)

    def evaluate_rollout(self, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """:return: values and log-probabilities"""
        return self.evaluate(self.prepare(observations), self.prepare_actions(actions))

    @abstractmethod
    def evaluate(self, observations: Any, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """:return: values and log-probabilities of prepared observations and actions"""

    @abstractmethod
    def prepare(self, observations: np.ndarray) -> Any:
        """:return: a rollout's observations in the form that the policy's network takes"""

    def prepare_actions(self, actions: np.ndarray) -> np.ndarray:
        dtype = np.float32 if self._head.kind in (GAUSSIAN, GSDE) else np.int64
        return np.ascontiguousarray(actions.reshape(len(actions), -1), dtype=dtype)

    def prepare_rollout(self, observations: np.ndarray, actions: np.ndarray, columns: Sequence[np.ndarray]) -> Rollout:
        """:param columns: old values, old log-probabilities, advantages and returns"""
        stacked = np.stack([column.reshape(-1) for column in columns], axis=1).astype(np.float32, copy=False)
        return Rollout(self.prepare(observations), self.prepare_actions(actions), stacked)

    def kl(self, rollout: Rollout) -> float:
        """:return: KL divergence of the policy from the one that collected the data, over all of it"""
        log_ratio = self.evaluate(rollout.observations, rollout.actions)[1] - rollout.columns[:, 1]
        return approx_kl(np.exp(log_ratio), log_ratio)

    def update(
        self,
        rollout: Rollout,
        loss: FastLoss,
        bounds: np.ndarray,
        draw: Callable[[], np.ndarray],
        n_epochs: int,
        limit: KLLimit | None,
    ) -> UpdateResult:
        """
        :param bounds: where the minibatches of an epoch begin, and the end of the last one
        :param draw: returns the order of the samples in an epoch
        """
        return _SteppedUpdate(self, self._policy, rollout, loss, bounds, draw).run(n_epochs, limit)

    @abstractmethod
    def differentiate(self, rollout: Rollout, rows: np.ndarray, loss: FastLoss) -> np.ndarray:
        """Write the parameters' gradients of the loss on some rows to ``parameter.grad``; returns the metrics."""

    def step(self) -> None:
        self._policy.optimizer.step()


class FastUpdate:
    """An :class:`~sb3_ext.common.fast_path.UpdateBackend` on this path."""

    def __init__(self, policy: FastPolicy, rollout: Rollout, loss: FastLoss, bounds: np.ndarray) -> None:
        self._policy, self._rollout, self._loss, self._bounds = policy, rollout, loss, bounds

    def run(self, n_epochs: int, limit: KLLimit | None) -> UpdateResult:
        n = self._rollout.n
        return self._policy.update(
            self._rollout, self._loss, self._bounds, lambda: np.random.permutation(n), n_epochs, limit
        )


class _SteppedUpdate(MinibatchUpdate):
    """Minibatch by minibatch, with a step of the policy's own optimizer for each."""

    def __init__(
        self,
        policy: FastPolicy,
        parameters: ActorCriticPolicy,
        rollout: Rollout,
        loss: FastLoss,
        bounds: np.ndarray,
        draw: Callable[[], np.ndarray],
    ) -> None:
        super().__init__(lambda: PolicyBackup(parameters), lambda: policy.kl(rollout))
        self._policy, self._rollout, self._loss, self._bounds, self._draw = policy, rollout, loss, bounds, draw
        self._actor, self._critic = split_parameters(parameters)
        self._names = loss.metrics

    def minibatches(self) -> Iterator[np.ndarray]:
        yield from np.split(self._draw(), self._bounds[1:-1])

    def evaluate(self, batch: np.ndarray) -> float:
        metrics = self._policy.differentiate(self._rollout, batch, self._loss)
        self._metrics.add(**{name: float(metrics[place]) for name, place in self._names.items()})
        return float(metrics[0])

    def step(self) -> None:
        self._metrics.add(**self._clip())
        self._policy.step()

    def _clip(self) -> GradientNorms:
        if self._loss.separate:
            return {
                "grad_norm_actor": _clip(self._actor, self._loss.max_norm),
                "grad_norm_critic": _clip(self._critic, self._loss.max_norm),
            }
        actor, critic = _norm(self._actor), _norm(self._critic)
        return {
            "grad_norm_actor": actor,
            "grad_norm_critic": critic,
            "grad_norm": _clip([*self._actor, *self._critic], self._loss.max_norm),
        }


def _clip(parameters: list[th.nn.Parameter], max_norm: float) -> float:
    return th.nn.utils.clip_grad_norm_(parameters, max_norm).item()


def _norm(parameters: list[th.nn.Parameter]) -> float:
    return th.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]).item()


def _fingerprint(policy: ActorCriticPolicy) -> list[Any]:
    """Changes when someone replaces, moves, freezes or hooks anything that the fast path relies on."""
    marks: list[Any] = [id(policy.optimizer)]
    modules: list[th.nn.Module] = [policy]
    # Our own traversal: Module.modules() and .parameters() take ten times as long
    while modules:
        module = modules.pop()
        marks.append((id(module), has_hooks(module)))
        marks += [
            (id(p), p.data_ptr(), p.requires_grad, bool(p._backward_hooks))
            for p in module._parameters.values()
            if p is not None
        ]
        modules += [child for child in module._modules.values() if child is not None]
    return marks


def has_hooks(module: th.nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)
