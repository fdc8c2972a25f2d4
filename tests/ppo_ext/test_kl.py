"""What an update does about the KL divergence, step by step, on a policy that is one number."""

import math

import pytest
import torch as th
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.common.epochs import MinibatchUpdate
from sb3_ext.common.fast_path import KLLimit
from sb3_ext.ppo_ext.kl import adapted_learning_rate


class Number:
    """A policy that is one number."""

    def __init__(self):
        self.value = 0

    def back_up(self):
        return Copy(self)


class Copy:
    def __init__(self, policy):
        self._policy, self._value = policy, policy.value

    def restore(self):
        self._policy.value = self._value


class NumberUpdate(MinibatchUpdate):
    """
    Each step adds 1 to the number; the KL divergences are what the test says.

    :param kls: of each minibatch of each epoch, before the step on it
    :param rollout_kls: of the whole rollout, for each time that it is measured
    """

    def __init__(self, policy, kls, rollout_kls=()):
        self.rollout_kls = iter(rollout_kls)
        super().__init__(policy.back_up, lambda: next(self.rollout_kls))
        self._policy, self._kls = policy, iter(kls)

    def minibatches(self):
        return iter(next(self._kls))

    def evaluate(self, batch):
        return batch

    def step(self):
        self._policy.value += 1


def run(*kls, rollout_kls=(), limit=0.1, scope="minibatch", rollback=True):
    """Returns the number after an update with these divergences in its epochs, and its result."""
    policy = Number()
    update = NumberUpdate(policy, kls, rollout_kls)
    result = update.run(len(kls), KLLimit(limit, scope, rollback))
    assert next(update.rollout_kls, None) is None, "the rollout was measured less often than expected"
    return policy.value, result


def test_rollback_undoes_the_last_step_only():
    value, result = run([0.0, 0.05, 0.2])
    assert (value, result.n_steps, result.stopped, result.last_kl) == (1, 2, True, 0.2)


def test_rollback_by_epoch_undoes_the_last_epoch_only():
    value, result = run([9.0, 9.0], [9.0, 9.0], rollout_kls=[0.05, 0.2], scope="epoch")
    assert (value, result.stopped, result.n_epochs) == (2, True, 2)


def test_rollback_undoes_the_first_step_too():
    value, result = run([9.0], rollout_kls=[0.2], scope="epoch")
    assert (value, result.stopped) == (0, True)


def test_without_rollback_the_steps_before_the_stop_stay():
    value, result = run([0.0, 0.05, 0.2, 0.0], rollback=False)
    assert (value, result.n_steps, result.stopped) == (2, 2, True)


@pytest.mark.parametrize("rollback", [True, False])
def test_the_last_step_of_an_update_is_checked_with_rollback_only(rollback):
    value, result = run([0.05], [0.05], rollout_kls=[0.2] if rollback else [], rollback=rollback)
    assert result.stopped == rollback
    assert value == (1 if rollback else 2)


def test_an_update_that_was_stopped_is_not_checked_again():
    _, result = run([0.2])
    assert result.stopped
    assert result.last_kl == 0.2


@pytest.mark.parametrize("rollback", [True, False])
def test_a_divergence_that_is_not_a_number_does_not_end_the_update_in_silence(rollback):
    value, result = run([math.nan], rollout_kls=[math.nan] if rollback else [], rollback=rollback)
    assert not result.stopped
    assert math.isnan(result.last_kl)
    assert value == 1


def test_a_divergence_at_the_limit_is_inside_it():
    assert not run([0.1], rollback=False)[1].stopped
    assert run([math.nextafter(0.1, 1)], rollback=False)[1].stopped


@pytest.mark.parametrize(("scope", "kls", "rollout_kls"), [("epoch", [1.0], [0.0]), ("minibatch", [0.0], [])])
def test_only_its_own_scope_is_checked(scope, kls, rollout_kls):
    assert not run(kls, rollout_kls=rollout_kls, scope=scope, rollback=False)[1].stopped


def test_without_a_limit_nothing_is_measured_or_copied():
    policy = Number()
    policy.back_up = pytest.fail
    result = NumberUpdate(policy, [[1e9]]).run(1, None)
    assert (result.n_steps, result.stopped) == (1, False)


@pytest.mark.parametrize(
    ("kl", "expected"), [(0.021, 1e-3 / 1.5), (0.019, 1e-3), (0.006, 1e-3), (0.004, 1.5e-3), (0.0, 1.5e-3)]
)
def test_the_learning_rate_changes_outside_half_and_twice_the_target(kl, expected):
    assert adapted_learning_rate(1e-3, kl, 0.01, (1e-5, 1e-2)) == pytest.approx(expected)


@pytest.mark.parametrize("kl", [0.02, 0.005])
def test_at_half_and_twice_the_target_the_learning_rate_stays(kl):
    assert adapted_learning_rate(1e-3, kl, 0.01, (1e-5, 1e-2)) == 1e-3


def test_the_learning_rate_stays_in_its_bounds():
    assert adapted_learning_rate(1.2e-5, 1.0, 0.01, (1e-5, 1e-2)) == 1e-5
    assert adapted_learning_rate(9e-3, 0.0, 0.01, (1e-5, 1e-2)) == 1e-2


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
