"""What is measured over a whole rollout."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy

from sb3_ext.common.diagnostics import approx_kl
from sb3_ext.common.policy_output import PolicyOutput, evaluate_batch, in_order, rollout_kl

SPACE = spaces.Box(-1, 1, (1,))


def make_buffer(n_steps, action_space=spaces.Discrete(2)):  # noqa: B008
    buffer = RolloutBuffer(n_steps, SPACE, action_space, "cpu", n_envs=2)
    buffer.observations[:] = np.arange(2 * n_steps).reshape(2, n_steps, 1).swapaxes(0, 1)
    buffer.full = True
    next(buffer.get())
    return buffer


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(None, [10]), (10, [10]), (5, [5, 5]), (4, [5, 5]), (3, [4, 3, 3]), (100, [10])]
)
def test_a_rollout_is_given_out_in_order_and_whole(batch_size, sizes):
    batches = list(in_order(make_buffer(5), batch_size))
    assert [len(batch.observations) for batch in batches] == sizes
    assert th.cat([batch.observations for batch in batches]).flatten().tolist() == list(range(10))


def test_looking_at_a_rollout_leaves_the_random_numbers_alone():
    buffer = make_buffer(5)
    before = np.random.get_state()[1].copy()
    list(in_order(buffer, 3))
    assert (np.random.get_state()[1] == before).all()


def test_the_divergence_of_a_rollout_is_that_of_all_its_samples_whatever_the_batches():
    policy = ActorCriticPolicy(SPACE, spaces.Discrete(2), lambda _: 1e-3)
    log_ratios = th.linspace(-1, 1, 10)

    def evaluate(part):
        assert not policy.training and not th.is_grad_enabled()
        samples = type("Samples", (), {"old_log_prob": th.full((len(part),), 3.0)})
        return PolicyOutput(part, part + 3.0, None), samples

    for sizes in ([10], [7, 3], [1, 9]):
        kl = rollout_kl(policy, log_ratios.split(sizes), evaluate)
        assert kl == pytest.approx(approx_kl(log_ratios).item(), rel=1e-4)
        assert policy.training


@pytest.mark.parametrize("action_space", [spaces.Discrete(2), spaces.MultiBinary(2), spaces.Box(-1, 1, (2,))])
def test_a_policy_is_asked_about_actions_of_every_kind(action_space):
    policy = ActorCriticPolicy(SPACE, action_space, lambda _: 1e-3)
    batch = next(make_buffer(5, action_space).get())
    output = evaluate_batch(policy, batch)
    assert output.values.shape == output.log_prob.shape == (10,)
