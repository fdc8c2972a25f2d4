"""Each piece of the fast path gives what SB3 and autograd give."""

from itertools import pairwise

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import make_proba_distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from sb3_ext.common.updates import PolicyBackup
from sb3_ext.fast.flat import FlatAdam, FlatBackup, FlatParameters
from sb3_ext.fast.heads import make_head
from sb3_ext.fast.mlp import Mlp, Workspace

CLOSE = {"rtol": 1e-4, "atol": 1e-6}


def with_gradients(module):
    for parameter in module.parameters():
        parameter.grad = th.zeros_like(parameter)
    return module


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("widths", [[5, 3], [5, 8, 3], [5, 8, 7, 3], [12, 9, 3]])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_and_its_gradients_are_those_of_autograd(activation, widths, threads):
    before = th.get_num_threads()
    th.set_num_threads(threads)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    modules = [module for layer in layers for module in (layer, activation())][:-1]
    network = nn.Sequential(*modules)
    inputs, gradient = th.randn(11, widths[0]), th.randn(11, 3)
    expected = network(inputs)
    expected.backward(gradient)
    expected_gradients = [parameter.grad.clone() for parameter in network.parameters()]

    mlp = Mlp(layers, activation)
    for parameter in network.parameters():
        parameter.grad.fill_(7.0)  # what was there before must not matter
    assert th.allclose(mlp.forward(inputs), expected, **CLOSE)
    assert np.allclose(mlp.forward_few(inputs.numpy()), expected.detach(), **CLOSE)
    mlp.backward(gradient)
    th.set_num_threads(before)
    for parameter, wanted in zip(network.parameters(), expected_gradients, strict=True):
        assert th.allclose(parameter.grad, wanted, **CLOSE)


def test_batches_of_many_sizes_share_little_memory():
    layers = [with_gradients(nn.Linear(5, 8)), with_gradients(nn.Linear(8, 3))]
    workspace = Workspace()
    actor, critic = Mlp(layers, nn.Tanh, workspace), Mlp(layers, nn.Tanh, workspace)
    for n in range(1, 40):
        inputs = th.randn(n, 5)
        outputs = actor.forward(inputs)
        assert critic.forward(inputs) is not outputs
        assert th.equal(outputs, critic.forward(inputs))
        actor.backward(th.ones(n, 3))
        assert len(workspace._outputs) <= 16 and len(workspace._gradients) <= 16
    assert actor.forward(inputs) is outputs


def test_whole_numbers_stand_for_one_hot_vectors():
    layers = [nn.Linear(6, 8), nn.Linear(8, 3)]
    numbers, gradient = th.tensor([5, 0, 0, 2, 5]), th.randn(5, 3)
    expected = nn.Sequential(layers[0], nn.Tanh(), layers[1])(nn.functional.one_hot(numbers, 6).float())
    expected.backward(gradient)
    expected_gradients = [layer.weight.grad.clone() for layer in layers]
    mlp = Mlp(layers, nn.Tanh)
    assert th.allclose(mlp.forward(numbers), expected, **CLOSE)
    assert np.allclose(mlp.forward_few(numbers.numpy()), expected.detach(), **CLOSE)
    mlp.backward(gradient)
    for layer, wanted in zip(layers, expected_gradients, strict=True):
        assert th.allclose(layer.weight.grad, wanted, **CLOSE)


ACTION_SPACES = {
    "Discrete": spaces.Discrete(4),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2, 4]),
    "Box": spaces.Box(-1, 1, (3,)),
}


def stock_distribution(space, outputs, log_std):
    distribution = make_proba_distribution(space)
    if isinstance(space, spaces.Box):
        return distribution.proba_distribution(outputs, log_std)
    return distribution.proba_distribution(outputs)


@pytest.mark.parametrize("kind", list(ACTION_SPACES))
def test_a_head_samples_evaluates_and_differentiates_as_sb3_does(kind):
    space = ACTION_SPACES[kind]
    n_outputs = {"Discrete": 4, "MultiDiscrete": 9, "Box": 3}[kind]
    log_std = nn.Parameter(th.tensor([-0.5, 0.1, 0.4]))
    log_std.grad = th.full((3,), 7.0)
    outputs = th.randn(13, n_outputs, requires_grad=True)
    head = make_head(space, log_std)

    th.manual_seed(5)
    expected_actions = stock_distribution(space, outputs.detach(), log_std.detach()).sample()
    th.manual_seed(5)
    actions = head.sample(outputs.detach())
    assert np.allclose(actions, expected_actions.numpy())

    distribution = stock_distribution(space, outputs, log_std)
    expected_log_prob, expected_entropy = distribution.log_prob(expected_actions), distribution.entropy()
    log_prob, entropy = head.evaluate(outputs.detach(), actions.reshape(13, -1).astype(np.float32))
    assert np.allclose(log_prob, expected_log_prob.detach(), **CLOSE)
    assert np.allclose(entropy, expected_entropy.detach(), **CLOSE)

    weights = th.randn(13)
    log_std_gradient = log_std.grad
    log_std.grad = None
    ((weights * expected_log_prob).sum() + 0.3 * expected_entropy.sum()).backward()
    gradient = head.backward(weights.numpy(), 0.3)
    assert th.allclose(gradient, outputs.grad, **CLOSE)
    if kind == "Box":
        assert th.allclose(log_std_gradient, log_std.grad, **CLOSE)


def test_large_outputs_do_not_overflow():
    outputs = 1000 * th.randn(13, 4)
    actions = th.randint(4, (13,))
    log_prob, entropy = make_head(ACTION_SPACES["Discrete"], None).evaluate(outputs, actions[:, None].numpy())
    distribution = stock_distribution(ACTION_SPACES["Discrete"], outputs, None)
    assert np.allclose(log_prob, distribution.log_prob(actions), rtol=1e-4)
    assert np.allclose(entropy, distribution.entropy(), atol=1e-4)


@pytest.fixture
def policy():
    return ActorCriticPolicy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), lambda progress: 1e-2)


def set_gradients(policy, seed):
    th.manual_seed(seed)
    for parameter in policy.parameters():
        parameter.grad.copy_(th.randn_like(parameter))


def test_steps_of_flat_adam_are_those_of_adam(policy):
    with_gradients(policy)
    twin = with_gradients(ActorCriticPolicy(policy.observation_space, policy.action_space, lambda progress: 1e-2))
    twin.load_state_dict(policy.state_dict())
    flat = FlatParameters(policy)
    adam = FlatAdam(policy.optimizer, flat)
    for seed in range(3):
        adam.start()
        set_gradients(policy, seed)
        set_gradients(twin, seed)
        norms = flat.clip_gradients(0.5)
        expected_norm = th.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        assert norms["grad_norm"] == pytest.approx(expected_norm.item(), rel=1e-5)
        adam.step()
        twin.optimizer.step()
        adam.finish()
    for ours, theirs in zip(policy.parameters(), twin.parameters(), strict=True):
        assert th.allclose(ours, theirs, **CLOSE)
    ours, theirs = policy.optimizer.state_dict()["state"], twin.optimizer.state_dict()["state"]
    for i, entry in theirs.items():
        assert all(th.allclose(ours[i][name], entry[name], **CLOSE) for name in ("step", "exp_avg", "exp_avg_sq"))


@pytest.mark.parametrize(
    ("options", "can"),
    [
        ({"betas": (0.5, 0.6), "eps": 1e-3}, True),
        *[({name: True}, False) for name in ("amsgrad", "maximize", "capturable", "differentiable")],
        ({"weight_decay": 0.1}, False),
    ],
    ids=str,
)
def test_only_plain_adam_is_stepped_in_its_place(policy, options, can):
    flat = FlatParameters(policy)
    assert FlatAdam.can_do(th.optim.Adam(policy.parameters(), **options), flat) == can


def test_an_optimizer_of_another_kind_or_of_other_parameters_is_left_alone(policy):
    flat = FlatParameters(policy)
    first, *rest = policy.parameters()
    assert not FlatAdam.can_do(th.optim.AdamW(policy.parameters(), weight_decay=0.0), flat)
    assert not FlatAdam.can_do(th.optim.Adam([{"params": [first]}, {"params": rest, "lr": 1.0}]), flat)
    assert not FlatAdam.can_do(th.optim.Adam(rest), flat)
    assert not FlatAdam.can_do(th.optim.Adam([*policy.parameters(), nn.Parameter(th.zeros(1))]), flat)


def test_a_policy_works_on_when_its_parameters_have_moved(policy):
    observations = th.randn(3, 4)
    before = [value.clone() for value in policy.evaluate_actions(observations, th.tensor([0, 1, 1]))]
    flat = FlatParameters(policy)
    after = policy.evaluate_actions(observations, th.tensor([0, 1, 1]))
    assert all(th.equal(a, b) for a, b in zip(before, after, strict=True))
    policy.optimizer.zero_grad()
    assert policy.value_net.weight.grad is None
    flat.bind_gradients()
    flat.gradients.fill_(2.0)
    assert all((parameter.grad == 2.0).all() for parameter in policy.parameters())
    flat.values.zero_()
    assert all((parameter == 0).all() for parameter in policy.parameters())


def test_actor_and_critic_are_clipped_apart(policy):
    flat = FlatParameters(policy)
    flat.gradients.zero_()
    flat.gradients[flat.actor][0], flat.gradients[flat.critic][0] = 0.3, 100.0
    norms = flat.clip_gradients_separately(0.5)
    assert norms == pytest.approx({"grad_norm_actor": 0.3, "grad_norm_critic": 100.0})
    assert flat.gradients[flat.actor].norm().item() == pytest.approx(0.3)
    assert flat.gradients[flat.critic].norm().item() == pytest.approx(0.5)


def test_an_optimizer_that_was_loaded_stepped_or_reset_is_gone_on_with(policy):
    with_gradients(policy)
    flat = FlatParameters(policy)
    adam = FlatAdam(policy.optimizer, flat)
    adam.start()
    set_gradients(policy, 1)
    adam.step()
    adam.finish()
    snapshot = PolicyBackup(policy)
    policy.optimizer.step()
    adam.start()
    assert adam.state()[-1] == 2
    snapshot.restore()
    adam.start()
    assert adam.state()[-1] == 1
    first = next(iter(policy.parameters()))
    assert policy.optimizer.state[first]["exp_avg"].abs().sum() > 0
    policy.optimizer.state.clear()
    adam.start()
    assert adam.state()[-1] == 0
    assert policy.optimizer.state[first]["exp_avg"].abs().sum() == 0


def test_a_snapshot_brings_back_parameters_moments_and_step(policy):
    flat = FlatParameters(policy)
    adam = FlatAdam(policy.optimizer, flat)
    adam.start()
    set_gradients(policy, 1)
    adam.step()
    before = [tensor.clone() for tensor in adam.state()]
    snapshot = FlatBackup(adam)
    adam.step()
    assert not all(th.equal(a, b) for a, b in zip(adam.state(), before, strict=True))
    snapshot.restore()
    assert all(th.equal(a, b) for a, b in zip(adam.state(), before, strict=True))


def test_a_gradient_that_is_not_a_number_is_not_hidden(policy):
    flat = FlatParameters(policy)
    flat.gradients[0] = float("nan")
    flat.clip_gradients(0.5)
    assert flat.gradients.isnan().all()  # as clip_grad_norm_ does
