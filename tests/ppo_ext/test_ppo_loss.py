"""The closed-form gradient of PPO's loss is the gradient of the loss that autograd differentiates."""

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.updates import PolicyOutput, approx_kl, clip_fraction
from sb3_ext.ppo_ext.loss import VALUE_LOSSES, LossSettings, Samples, ppo_loss, ppo_loss_gradient

CLOSE = {"rtol": 1e-4, "atol": 1e-6}
LOSS_SETTINGS = st.builds(
    LossSettings,
    clip_range=st.sampled_from([0.05, 0.2, 0.9]),
    clip_range_vf=st.sampled_from([None, 0.3]),
    ent_coef=st.sampled_from([0.0, 0.01]),
    vf_coef=st.sampled_from([0.0, 0.5]),
    normalize_advantage=st.booleans(),
    value_loss=st.sampled_from(sorted(VALUE_LOSSES)),
)


@given(LOSS_SETTINGS, st.sampled_from([1, 2, 3, 50]), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_loss_gradient_and_metrics_are_those_of_autograd(loss_settings, n, seed):
    th.manual_seed(seed)
    values, log_prob, entropy = (th.randn(n, requires_grad=True) for _ in range(3))
    old_values, advantages, returns = (3 * th.randn(n) for _ in range(3))
    old_log_prob = (log_prob + 0.5 * th.randn(n)).detach()
    batch = RolloutBufferSamples(th.zeros(n), th.zeros(n), old_values, old_log_prob, advantages, returns)
    terms = ppo_loss(PolicyOutput(values, log_prob, entropy), batch, loss_settings)
    terms.total.backward()

    samples = Samples(*(tensor.numpy() for tensor in (old_values, old_log_prob, advantages, returns)))
    outputs = (tensor.detach().numpy() for tensor in (values, log_prob, entropy))
    gradient = ppo_loss_gradient(*outputs, samples, loss_settings)
    assert np.allclose(gradient.values, values.grad, **CLOSE)
    assert np.allclose(gradient.log_prob, log_prob.grad, **CLOSE)
    assert np.allclose(gradient.entropy, entropy.grad, **CLOSE)
    expected = {
        "loss": terms.total.item(),
        "policy_gradient_loss": terms.policy.item(),
        "value_loss": terms.value.item(),
        "entropy_loss": terms.entropy.item(),
        "approx_kl": approx_kl(terms.ratio, terms.log_ratio),
        "clip_fraction": clip_fraction(terms.ratio, loss_settings.clip_range),
    }
    assert gradient.metrics == pytest.approx(expected, rel=1e-3, abs=1e-5)
