"""Random networks and rollouts for the kernel, and what autograd makes of them."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch as th
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from torch import nn

from sb3_ext.fast.kernel import N_METRICS, Kernel

ACTIVATIONS = [nn.Tanh, nn.ReLU]
CATEGORICAL, GAUSSIAN, BERNOULLI, GSDE = range(4)
ADAM, RMS_PROP, NO_OPTIMIZER = range(3)
NO_LIMIT = (False, False, False, 0.0)
PPO_LOSS = (0, True, False, False, 0.2, -1.0, 0.01, 0.5, 0.5)


@dataclass
class Case:
    """A network with a rollout of random samples."""

    seed: int = 0
    n: int = 50
    n_inputs: int = 4
    actor: tuple[int, ...] = (64, 64)
    critic: tuple[int, ...] = (64, 64)
    activation: int = 0
    kind: int = CATEGORICAL
    sizes: tuple[int, ...] = (2,)
    one_hot: bool = False
    isa: str = "auto"

    def __post_init__(self):
        th.manual_seed(self.seed)
        random = np.random.default_rng(self.seed)
        widths = (self.n_inputs, *self.actor, sum(self.sizes)), (self.n_inputs, *self.critic, 1)
        self.kernel = Kernel(*widths, self.activation, self.kind, self.sizes, self.one_hot, self.isa)
        self.networks = [self._network(of_one) for of_one in widths]
        is_box = self.kind in (GAUSSIAN, GSDE)
        shape = (widths[0][-2], len(self.sizes)) if self.kind == GSDE else (len(self.sizes),)
        self.log_std = nn.Parameter(0.3 * th.randn(shape)) if is_box else None
        self.parameters = [list(network.parameters()) for network in self.networks]
        if self.log_std is not None:
            self.parameters[0].append(self.log_std)
        if self.one_hot:
            self.observations = random.integers(0, self.n_inputs, self.n)
        else:
            self.observations = random.normal(size=(self.n, self.n_inputs)).astype(np.float32)
        if is_box:
            self.actions = random.normal(size=(self.n, len(self.sizes))).astype(np.float32)
        else:
            most = [2 if self.kind == BERNOULLI else size for size in self.sizes]
            self.actions = random.integers(0, most, (self.n, len(most)))
        self.columns = random.normal(size=(self.n, 4)).astype(np.float32)

    def _network(self, widths):
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
        activation = ACTIVATIONS[self.activation]
        parts = [part for layer in layers for part in (layer, activation())]
        return nn.Sequential(*parts[:-1])

    def tensors(self, network, moments=True):
        """:return: a network's parameters, gradients and moments, as the kernel takes them"""
        parameters = [parameter.detach().numpy() for parameter in self.parameters[network]]
        zeros = [[np.zeros_like(parameter) for parameter in parameters] for _ in range(3)]
        return (parameters, zeros[0], *(zeros[1:] if moments else (None, None)))

    def torch_values_and_log_probs(self):
        """:return: values, log-probabilities and entropies"""
        observations = th.from_numpy(self.observations)
        rows = nn.functional.one_hot(observations, self.n_inputs).float() if self.one_hot else observations
        outputs, values = self.networks[0](rows), self.networks[1](rows)[:, 0]
        actions = th.from_numpy(self.actions)
        if self.kind == GAUSSIAN:
            parts = [th.distributions.Normal(outputs, self.log_std.exp())]
            return values, parts[0].log_prob(actions).sum(1), parts[0].entropy().sum(1)
        if self.kind == GSDE:
            noise = StateDependentNoiseDistribution(len(self.sizes))
            noise.proba_distribution(outputs, self.log_std, self.networks[0][:-1](rows))
            return values, noise.log_prob(actions), noise.entropy()
        if self.kind == BERNOULLI:
            distribution = th.distributions.Bernoulli(logits=outputs)
            return values, distribution.log_prob(actions.float()).sum(1), distribution.entropy().sum(1)
        parts = [th.distributions.Categorical(logits=part) for part in outputs.split(self.sizes, 1)]
        log_prob = sum(part.log_prob(actions[:, i]) for i, part in enumerate(parts))
        return values, log_prob, sum(part.entropy() for part in parts)

    def evaluate(self):
        values, log_probs = np.empty(self.n, np.float32), np.empty(self.n, np.float32)
        actor, critic = self.tensors(0)[0], self.tensors(1)[0]
        self.kernel.evaluate(actor, critic, self.observations, self.actions, values, log_probs)
        return values, log_probs

    def update(
        self,
        bounds=None,
        n_epochs=1,
        loss=PPO_LOSS,
        limit=NO_LIMIT,
        optimizer=(ADAM, 1e-3, 0.9, 0.999, 1e-5),
        two_threads=False,
    ):
        """:return: the kernel's result, what it changed, metrics and the optimizer's count of steps"""
        bounds = np.array([0, self.n]) if bounds is None else bounds
        random = np.random.default_rng(self.seed)
        orders = np.stack([random.permutation(self.n) for _ in range(n_epochs)])
        tensors = [self.tensors(network, optimizer[0] == ADAM) for network in (0, 1)]
        if optimizer[0] == RMS_PROP:
            tensors = [(p, g, None, [np.ones_like(a) for a in p]) for p, g, *_ in tensors]
        metrics, count = np.empty((n_epochs * (len(bounds) - 1), N_METRICS)), np.zeros(1)
        data = (self.observations, self.actions, self.columns)
        result = self.kernel.update(
            *tensors, *data, orders, bounds, metrics, count, n_epochs, loss, limit, optimizer, two_threads
        )
        return result, tensors, metrics, count[0], orders


def random_case(seed, isa="auto"):
    random = np.random.default_rng(seed)
    kind = int(random.integers(4))
    n_parts = int(random.integers(1, 5))
    sizes = tuple(int(size) for size in random.integers(1, 20, n_parts)) if kind == CATEGORICAL else (1,) * n_parts
    widths = [tuple(int(w) for w in random.choice([*range(1, 90), 256, 384], random.integers(0, 4))) for _ in range(2)]
    if kind == GSDE and not widths[0]:
        widths[0] = (8,)
    return Case(
        seed=seed,
        n=int(random.integers(1, 400)),
        n_inputs=int(random.integers(1, 40)),
        actor=widths[0],
        critic=widths[1],
        activation=int(random.integers(2)),
        kind=kind,
        sizes=sizes,
        one_hot=bool(random.integers(2)),
        isa=isa,
    )


def exercise(seed, isa="auto"):
    """Everything the kernel does, on a random case."""
    random = np.random.default_rng(seed)
    case = random_case(seed, isa)
    case.evaluate()
    n_outputs = sum(case.sizes)
    shape = (case.n, n_outputs if case.kind == BERNOULLI else len(case.sizes))
    actions = np.empty(shape, np.int64 if case.kind == CATEGORICAL else np.float32)
    n_noise = case.n * (case.log_std.numel() if case.kind == GSDE else n_outputs)
    noise = None if case.kind == BERNOULLI or seed % 2 else random.exponential(size=n_noise).astype("f4")
    case.kernel.act(case.tensors(0)[0], case.observations, noise, actions)
    inside = np.unique(random.integers(1, case.n, 3)) if case.n > 1 else np.array([], int)
    bounds = np.array([0, *inside, case.n])
    loss = (seed % 2, bool(seed % 3), bool(seed % 5), bool(seed % 7), 0.2, random.choice([-1.0, 0.1]), 0.01, 0.5, 0.5)
    limit = [NO_LIMIT, (True, False, True, 1e-3), (False, True, True, 1e-3), (True, False, False, 1e-3)][seed % 4]
    optimizer = [(ADAM, 1e-2, 0.9, 0.999, 1e-5), (RMS_PROP, 1e-3, 0.0, 0.99, 1e-5)][seed % 2]
    case.update(bounds, 3, loss, limit, optimizer, two_threads=bool(seed % 5))
