"""The kernel's losses and their gradients are those that autograd differentiates, for all distributions of actions."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.distributions import make_proba_distribution
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.updates import PolicyOutput, approx_kl, clip_fraction
from sb3_ext.fast.kernel import N_METRICS, WHY_NOT, Kernel
from sb3_ext.fast.policy import FastLoss, LossKind, head_of
from sb3_ext.ppo_ext.loss import VALUE_LOSSES, LossSettings, ppo_loss
from sb3_ext.reinforce.loss import reinforce_loss

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
ACTIONS = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([2, 4]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-1, 1, (2,), np.float32),
}
LOSS_SETTINGS = st.builds(
    LossSettings,
    clip_range=st.sampled_from([0.05, 0.2, 0.9]),
    clip_range_vf=st.sampled_from([None, 0.3]),
    ent_coef=st.sampled_from([0.0, 0.01]),
    vf_coef=st.sampled_from([0.0, 0.5]),
    normalize_advantage=st.booleans(),
    value_loss=st.sampled_from(sorted(VALUE_LOSSES)),
)


class Batch:
    """Random outputs of a network, actions drawn from them, and the rest of a minibatch."""

    def __init__(self, space, n, seed):
        th.manual_seed(seed)
        kind, sizes = head_of(space)
        self.kernel = Kernel((1, sum(sizes)), (1, 1), 0, kind, sizes, False)
        self.outputs = th.randn(n, sum(sizes), requires_grad=True)
        self.log_std = th.randn(len(sizes) if isinstance(space, spaces.Box) else 0, requires_grad=True)
        self.values = th.randn(n, requires_grad=True)
        distribution = make_proba_distribution(space)
        if isinstance(space, spaces.Box):
            distribution = distribution.proba_distribution(self.outputs, self.log_std)
        else:
            distribution = distribution.proba_distribution(self.outputs)
        self.actions = distribution.sample().detach()
        log_prob = distribution.log_prob(self.actions)
        self.output = PolicyOutput(self.values, log_prob, distribution.entropy())
        old_log_prob = (log_prob + 0.5 * th.randn(n)).detach()
        columns = (3 * th.randn(n), old_log_prob, 3 * th.randn(n), 3 * th.randn(n))
        self.columns = np.stack([column.numpy() for column in columns], axis=1)
        self.samples = RolloutBufferSamples(th.zeros(n), self.actions, *columns)

    def check(self, loss, settings, expected):
        """Compare gradients with those of a loss, and metrics with what is expected."""
        loss.backward()
        gradients = [np.empty(tuple(t.shape), np.float32) for t in (self.outputs, self.values, self.log_std)]
        metrics = np.empty(N_METRICS)
        numbers = np.float32 if self.log_std.numel() else np.int64
        actions = self.actions.numpy().reshape(len(self.values), -1).astype(numbers)
        inputs = [tensor.detach().numpy() for tensor in (self.outputs, self.values, self.log_std)]
        self.kernel.loss(*inputs, actions, self.columns, *gradients, metrics, settings)
        for tensor, gradient in zip((self.outputs, self.values, self.log_std), gradients, strict=True):
            reference = np.zeros_like(gradient) if tensor.grad is None else tensor.grad.numpy()
            np.testing.assert_allclose(gradient, reference, rtol=1e-3, atol=1e-6)
        found = {name: metrics[place] for name, place in settings.metrics.items()}
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)


@given(st.sampled_from(sorted(ACTIONS)), LOSS_SETTINGS, st.sampled_from([1, 2, 3, 50]), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_the_gradient_of_ppo_is_that_of_autograd(space, options, n, seed):
    batch = Batch(ACTIONS[space], n, seed)
    terms = ppo_loss(batch.output, batch.samples, options)
    loss = FastLoss(
        LossKind.PPO,
        normalize=options.normalize_advantage,
        huber=options.value_loss == "huber",
        clip=options.clip_range,
        clip_vf=-1.0 if options.clip_range_vf is None else options.clip_range_vf,
        ent_coef=options.ent_coef,
        vf_coef=options.vf_coef,
    )
    expected = {
        "loss": terms.total.item(),
        "policy_gradient_loss": terms.policy.item(),
        "value_loss": terms.value.item(),
        "entropy_loss": terms.entropy.item(),
        "approx_kl": approx_kl(terms.ratio, terms.log_ratio),
        "clip_fraction": clip_fraction(terms.ratio, options.clip_range),
    }
    batch.check(terms.total, loss, expected)


@pytest.mark.parametrize(("ent_coef", "vf_coef"), [(0.0, 0.5), (0.1, 0.0), (0.05, 0.3)])
@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("space", ACTIONS)
def test_the_gradient_of_reinforce_is_that_of_autograd(space, n, ent_coef, vf_coef):
    batch = Batch(ACTIONS[space], n, seed=n)
    loss, metrics = reinforce_loss(batch.output, batch.samples, ent_coef, vf_coef)
    batch.check(loss, FastLoss(LossKind.POLICY_GRADIENT, ent_coef=ent_coef, vf_coef=vf_coef), metrics)
