"""One optimizer step: what is clipped, and what is told of the gradients."""

import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticCnnPolicy, ActorCriticPolicy

from sb3_ext.common.gradients import optimize, optimize_apart, split_parameters

VECTORS, IMAGES, ACTIONS = spaces.Box(-1, 1, (3,)), spaces.Box(0, 255, (3, 36, 36), dtype="uint8"), spaces.Discrete(2)


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
    norms = optimize(policy, loss_of(policy), max_norm)
    actor, critic = split_parameters(policy)
    scale = min(1.0, max_norm / norms["grad_norm"])
    assert norms["grad_norm"] == pytest.approx((norms["grad_norm_actor"] ** 2 + norms["grad_norm_critic"] ** 2) ** 0.5)
    assert norm(actor) == pytest.approx(scale * norms["grad_norm_actor"], rel=1e-3)
    assert norm(critic) == pytest.approx(scale * norms["grad_norm_critic"], rel=1e-3)
    for old, parameter in zip(before, policy.parameters(), strict=True):
        th.testing.assert_close(parameter.detach(), old - 0.1 * parameter.grad)


@pytest.mark.parametrize("step", [optimize, optimize_apart])
def test_gradients_of_the_step_before_are_forgotten(step):
    policy, twin = make(), make()
    twin.load_state_dict(policy.state_dict())
    loss_of(policy, 50.0).backward()
    assert step(policy, loss_of(policy), 0.5) == pytest.approx(step(twin, loss_of(twin), 0.5))


def test_a_large_gradient_of_the_critic_leaves_the_actors_alone():
    policy = make()
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    norms = optimize_apart(policy, loss_of(policy, 1000.0), 0.5)
    actor, critic = split_parameters(policy)
    assert norms["grad_norm_critic"] > 100
    assert norm(critic) == pytest.approx(0.5, rel=1e-3)
    assert norm(actor) == pytest.approx(min(0.5, norms["grad_norm_actor"]), rel=1e-3)
    for old, parameter in zip(before, policy.parameters(), strict=True):
        th.testing.assert_close(parameter.detach(), old - 0.1 * parameter.grad)
