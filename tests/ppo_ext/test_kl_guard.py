"""What the KL guard decides, step by step, on a policy that is one number."""

import math

import pytest
import torch as th
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.ppo_ext.kl_guard import KLGuard


class Number:
    """A policy that is one number; its KL divergence is what the test says."""

    def __init__(self):
        self.value, self.rollout_kl = 0, 0.0

    def back_up(self):
        return Copy(self)


class Copy:
    def __init__(self, policy):
        self._policy, self._value = policy, policy.value

    def restore(self):
        self._policy.value = self._value


def make_guard(policy, limit=0.1, scope="epoch", rollback=True):
    return KLGuard(limit, scope, rollback, lambda: policy.rollout_kl, policy.back_up)


@pytest.mark.parametrize("scope", ["epoch", "minibatch"])
def test_rollback_undoes_the_last_steps_only(scope):
    policy = Number()
    guard = make_guard(policy, scope=scope)

    def measure(kl):
        policy.rollout_kl = kl
        return guard.stops_after_epoch() if scope == "epoch" else guard.stops_before_step(kl)

    policy.value = 1
    assert not measure(0.05)
    policy.value = 2
    assert measure(0.2)
    assert policy.value == 1


def test_rollback_undoes_the_first_step_too():
    policy = Number()
    guard = make_guard(policy)
    policy.value, policy.rollout_kl = 1, 0.2
    assert guard.stops_after_epoch()
    assert policy.value == 0


@pytest.mark.parametrize("rollback", [True, False])
def test_the_step_after_the_last_look_is_held_to_the_limit_with_rollback_only(rollback):
    policy = Number()
    guard = make_guard(policy, scope="minibatch", rollback=rollback)
    assert not guard.stops_before_step(0.05)
    policy.value, policy.rollout_kl = 1, 0.2
    guard.after_last_epoch()
    assert guard.stopped == rollback
    assert policy.value == (0 if rollback else 1)


def test_an_update_that_was_stopped_is_not_judged_again():
    policy = Number()
    guard = make_guard(policy, scope="minibatch")
    assert guard.stops_before_step(0.2)
    guard.after_last_epoch()
    assert guard.stopped
    assert guard.last_kl == 0.2


@pytest.mark.parametrize("rollback", [True, False])
def test_a_divergence_that_is_not_a_number_does_not_end_the_update_in_silence(rollback):
    guard = make_guard(Number(), scope="minibatch", rollback=rollback)
    assert not guard.stops_before_step(math.nan)
    assert math.isnan(guard.last_kl)


def test_a_divergence_at_the_limit_is_inside_it():
    guard = make_guard(Number(), scope="minibatch", rollback=False)
    assert not guard.stops_before_step(0.1)
    assert guard.stops_before_step(math.nextafter(0.1, 1))


@pytest.mark.parametrize(("scope", "other"), [("epoch", "minibatch"), ("minibatch", "epoch")])
def test_only_its_own_scope_is_looked_at(scope, other):
    policy = Number()
    policy.rollout_kl = 1.0
    guard = make_guard(policy, scope=scope, rollback=False)
    assert not (guard.stops_before_step(1.0) if other == "minibatch" else guard.stops_after_epoch())


def test_without_a_limit_nothing_is_measured_or_copied():
    guard = KLGuard(None, "epoch", True, pytest.fail, pytest.fail)
    assert not guard.stops_before_step(1e9)
    assert not guard.stops_after_epoch()
    guard.after_last_epoch()
    assert not guard.stopped


class RecordedPPO(PPOExt):
    """Keeps whether the policy was in training mode when it was asked, and the divergence before each update."""

    def train(self):
        self.modes = []
        list(self.rollout_buffer.get())
        self.kl_before = self._rollout_kl()
        self.modes.clear()
        super().train()

    def _evaluate(self, batch):
        self.modes.append(self.policy.training)
        return super()._evaluate(batch)


def test_the_divergence_of_a_rollout_is_measured_without_dropout_and_the_update_goes_on_with_it():
    options = {"target_kl": 1e9, "kl_stop_scope": "epoch", "policy_kwargs": {"dropout": 0.5}}
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = RecordedPPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=2, seed=0, device="cpu", **options)
    model.learn(32, log_interval=None)
    assert model.kl_before == pytest.approx(0, abs=1e-6)
    assert model.modes == [True, False, True, False]


@pytest.mark.parametrize("fast", ["alone", False])
def test_the_only_step_of_an_update_is_taken_back_where_it_goes_too_far(fast):
    """No minibatch follows it on which this could be seen."""
    options = {"target_kl": 1e-6, "kl_rollback": True, "learning_rate": 0.1, "n_epochs": 1, "fast": fast}
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = PPOExt("MlpPolicy", env, n_steps=16, batch_size=32, seed=0, device="cpu", **options)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(32, log_interval=None)
    assert model.kl_stops == 1
    logged = model.logger.name_to_value
    assert (logged["train/kl_stopped"], logged["train/kl_stops"], logged["train/epochs_run"]) == (1, 1, 1)
    assert all(th.equal(old, now) for old, now in zip(before, model.policy.parameters(), strict=True))


def test_a_not_a_number_reaches_the_parameters_where_it_is_seen():
    model = PPOExt("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0), n_steps=16, batch_size=16, seed=0,
                   device="cpu", target_kl=0.01)  # fmt: skip
    model.learn(32, log_interval=None)
    with th.no_grad():
        model.policy.value_net.bias.fill_(math.nan)
    model.rollout_buffer.returns[:] = math.nan
    model.train()
    assert model.policy.action_net.weight.isnan().all()
