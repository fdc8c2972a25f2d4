"""What the updates of all algorithms share: measuring a minibatch and a rollout, and one optimizer step."""

import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticCnnPolicy, ActorCriticPolicy

from sb3_ext.common.updates import (
    MinibatchMetrics,
    PolicyOutput,
    approx_kl,
    clip_and_step,
    clip_fraction,
    clip_separately_and_step,
    evaluate_batch,
    in_order,
    normalize_advantages,
    rollout_kl,
    split_parameters,
)

VECTORS, IMAGES, ACTIONS = spaces.Box(-1, 1, (3,)), spaces.Box(0, 255, (3, 36, 36), dtype="uint8"), spaces.Discrete(2)
SPACE = spaces.Box(-1, 1, (1,))
KINDS = pytest.mark.parametrize("kind", [th.tensor, np.array], ids=["tensors", "arrays"])


@KINDS
def test_the_divergence_of_equal_policies_is_zero_and_of_others_positive(kind):
    assert approx_kl(kind([1.0] * 5), kind([0.0] * 5)) == 0
    expected = ((math.exp(0.5) - 1 - 0.5) + (math.exp(-0.5) - 1 + 0.5)) / 2
    ratio = kind([math.exp(0.5), math.exp(-0.5)])
    assert approx_kl(ratio, kind([0.5, -0.5])) == pytest.approx(expected, rel=1e-5)


@KINDS
def test_ratios_beyond_the_clip_range_on_either_side_are_counted(kind):
    ratio = kind([1.0, 1.25, 0.75, 1.5, 0.5])
    assert clip_fraction(ratio, 0.25) == pytest.approx(0.4), "those at the limit are inside"


@pytest.mark.parametrize("n", [2, 64])
def test_advantages_are_normalised_as_in_sb3_on_both_paths(n):
    advantages = 3 + 5 * th.randn(n)
    normalised = normalize_advantages(advantages)
    th.testing.assert_close(normalised, (advantages - advantages.mean()) / (advantages.std() + 1e-8), rtol=0, atol=0)
    of_array = normalize_advantages(advantages.numpy())
    assert of_array.dtype == np.float32
    np.testing.assert_allclose(of_array, normalised, rtol=1e-4, atol=1e-5)


@KINDS
def test_one_advantage_alone_has_no_standard_deviation_and_stays(kind):
    assert normalize_advantages(kind([3.0])) == 3.0


def test_minibatches_are_summed_up_by_name():
    metrics = MinibatchMetrics()
    metrics.add(loss=3.0, kl=0.1)
    metrics.add(loss=-1.0, kl=0.3)
    metrics.add(loss=1.0)
    assert list(metrics.values) == ["loss", "kl"]
    assert (metrics.mean("loss"), metrics.max("loss"), metrics.last("loss")) == (1.0, 3.0, 1.0)
    assert metrics.mean("kl") == pytest.approx(0.2)


def test_a_minibatch_that_is_not_a_number_is_not_hidden():
    metrics = MinibatchMetrics()
    for value in (1.0, math.nan, 2.0):
        metrics.add(kl=value)
    assert math.isnan(metrics.mean("kl")) and math.isnan(metrics.max("kl"))


def make(policy_class=ActorCriticPolicy, observation_space=VECTORS, **kwargs):
    return policy_class(
        observation_space, ACTIONS, lambda _: 0.1, optimizer_class=th.optim.SGD, optimizer_kwargs={}, **kwargs
    )


def loss_of(policy, values_weight=1.0):
    values, log_prob, _ = policy.evaluate_actions(th.ones(4, 3), th.tensor([0, 1, 1, 1]))
    return log_prob.mean() + values_weight * values.mean()


def norm(parameters):
    return th.stack([parameter.grad.norm() for parameter in parameters]).norm().item()


@pytest.mark.parametrize(
    "policy",
    [
        make(),
        make(ActorCriticCnnPolicy, IMAGES),
        make(ActorCriticCnnPolicy, IMAGES, share_features_extractor=False),
        make(RecurrentActorCriticPolicy),
    ],
    ids=["mlp", "shared", "unshared", "recurrent"],
)
def test_the_critics_parameters_are_those_that_only_values_depend_on(policy):
    actor, critic = split_parameters(policy)
    names = {id(parameter): name for name, parameter in policy.named_parameters()}
    assert {names[id(parameter)] for parameter in [*actor, *critic]} == set(names.values())
    marks = ("value_net", "vf_features_extractor", "lstm_critic", "critic")
    assert all(any(mark in names[id(parameter)] for mark in marks) for parameter in critic)
    assert not any(any(mark in names[id(parameter)] for mark in marks) for parameter in actor)


@pytest.mark.parametrize("max_norm", [0.01, 100.0])
def test_all_gradients_are_clipped_together(max_norm):
    policy = make()
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    norms = clip_and_step(policy, loss_of(policy), max_norm)
    actor, critic = split_parameters(policy)
    scale = min(1.0, max_norm / norms["grad_norm"])
    assert norms["grad_norm"] == pytest.approx((norms["grad_norm_actor"] ** 2 + norms["grad_norm_critic"] ** 2) ** 0.5)
    assert norm(actor) == pytest.approx(scale * norms["grad_norm_actor"], rel=1e-3)
    assert norm(critic) == pytest.approx(scale * norms["grad_norm_critic"], rel=1e-3)
    for old, parameter in zip(before, policy.parameters(), strict=True):
        th.testing.assert_close(parameter.detach(), old - 0.1 * parameter.grad)


@pytest.mark.parametrize("step", [clip_and_step, clip_separately_and_step])
def test_gradients_of_the_step_before_are_forgotten(step):
    policy, twin = make(), make()
    twin.load_state_dict(policy.state_dict())
    loss_of(policy, 50.0).backward()
    assert step(policy, loss_of(policy), 0.5) == pytest.approx(step(twin, loss_of(twin), 0.5))


def test_a_large_gradient_of_the_critic_leaves_the_actors_alone():
    policy = make()
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    norms = clip_separately_and_step(policy, loss_of(policy, 1000.0), 0.5)
    actor, critic = split_parameters(policy)
    assert norms["grad_norm_critic"] > 100
    assert norm(critic) == pytest.approx(0.5, rel=1e-3)
    assert norm(actor) == pytest.approx(min(0.5, norms["grad_norm_actor"]), rel=1e-3)
    for old, parameter in zip(before, policy.parameters(), strict=True):
        th.testing.assert_close(parameter.detach(), old - 0.1 * parameter.grad)


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
        assert kl == pytest.approx(approx_kl(log_ratios.exp(), log_ratios), rel=1e-4)
        assert policy.training


@pytest.mark.parametrize("action_space", [spaces.Discrete(2), spaces.MultiBinary(2), spaces.Box(-1, 1, (2,))])
def test_a_policy_is_asked_about_actions_of_every_kind(action_space):
    policy = ActorCriticPolicy(SPACE, action_space, lambda _: 1e-3)
    batch = next(make_buffer(5, action_space).get())
    output = evaluate_batch(policy, batch)
    assert output.values.shape == output.log_prob.shape == (10,)
