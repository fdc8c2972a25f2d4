"""The closed-form gradient of REINFORCE's loss is the gradient of the loss that autograd differentiates."""

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.updates import PolicyOutput
from sb3_ext.reinforce.loss import reinforce_loss, reinforce_loss_gradient

CLOSE = {"rtol": 1e-4, "atol": 1e-6}


@pytest.mark.parametrize(("ent_coef", "vf_coef"), [(0.0, 0.5), (0.1, 0.0), (0.05, 0.3)])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_loss_gradient_and_metrics_are_those_of_autograd(n, ent_coef, vf_coef):
    th.manual_seed(n)
    values, log_prob, entropy = (th.randn(n, requires_grad=True) for _ in range(3))
    old_log_prob = (log_prob + 0.5 * th.randn(n)).detach()
    batch = RolloutBufferSamples(th.zeros(n), th.zeros(n), th.zeros(n), old_log_prob, th.randn(n), 3 * th.randn(n))
    loss, metrics = reinforce_loss(PolicyOutput(values, log_prob, entropy), batch, ent_coef, vf_coef)
    loss.backward()
    outputs = (tensor.detach().numpy() for tensor in (values, log_prob, entropy))
    gradient = reinforce_loss_gradient(*outputs, batch, ent_coef, vf_coef)
    assert np.allclose(gradient.values, values.grad, **CLOSE)
    assert np.allclose(gradient.log_prob, log_prob.grad, **CLOSE)
    assert np.allclose(gradient.entropy, entropy.grad, **CLOSE)
    assert gradient.metrics == pytest.approx(metrics, rel=1e-4, abs=1e-6)
