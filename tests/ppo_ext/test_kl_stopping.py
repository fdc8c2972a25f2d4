"""KL early stopping: when an update ends, what is logged of it, and what rollback takes back."""

import functools

import pytest
import torch as th
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt


class RecordedPPO(PPOExt):
    """Keeps what each update logged, and the KL divergence that it left, measured over the whole rollout."""

    def train(self):
        super().train()
        kl_left = self._rollout_kl()
        self.updates = [*getattr(self, "updates", []), {**self.logger.name_to_value, "kl_left": kl_left}]


@functools.cache
def train(**kwargs):
    """A learning rate at which plain PPO goes far beyond a KL divergence of 0.01; each training is made once."""
    settings = {"n_steps": 64, "batch_size": 32, "n_epochs": 8, "seed": 0, "learning_rate": 3e-3, "device": "cpu"}
    model = RecordedPPO("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0), **{**settings, **kwargs})
    model.learn(2560, log_interval=None)
    return model, model.updates


def test_without_a_target_no_update_stops():
    model, updates = train()
    assert model.kl_stops == 0
    assert all(update["train/epochs_run"] == 8 and update["train/kl_stopped"] == 0 for update in updates)
    assert max(update["kl_left"] for update in updates) > 0.03, "the task is too easy to test stopping on"


def test_a_stop_holds_for_its_update_only():
    _, updates = train(target_kl=0.01, kl_stop_scope="minibatch", seed=0)
    stopped = [update["train/kl_stopped"] for update in updates]
    assert 0 < sum(stopped) < len(stopped)
    assert all(update["train/epochs_run"] > 0 for update in updates), "an update after a stop did not run"


def test_the_stops_are_counted():
    model, updates = train(target_kl=0.01, kl_stop_scope="minibatch", seed=0)
    counts = [update["train/kl_stops"] for update in updates]
    assert counts == [sum(update["train/kl_stopped"] for update in updates[: i + 1]) for i in range(len(updates))]
    assert model.kl_stops == counts[-1]


def test_only_epochs_that_ran_are_counted_as_updates():
    _, updates = train(target_kl=0.001)
    n_updates = [update["train/n_updates"] for update in updates]
    assert n_updates[-1] < 8 * len(updates)
    # Each update runs whole epochs and at most one more in part
    for before, after, update in zip([0, *n_updates], n_updates, updates, strict=False):
        assert after - before == -(-update["train/epochs_run"] // 1)


def test_the_logged_divergence_is_over_all_minibatches_not_the_last_epoch():
    _, updates = train()
    for update in updates:
        assert 0 < update["train/approx_kl"] < update["train/approx_kl_max"]


def test_a_larger_factor_stops_later():
    strict, _ = train(target_kl=0.01, kl_stop_factor=1.0)
    loose, _ = train(target_kl=0.01, kl_stop_factor=4.0)
    assert strict.kl_stops > loose.kl_stops


def test_epoch_scope_stops_only_between_epochs():
    model, updates = train(target_kl=0.01, kl_stop_scope="epoch", seed=0)
    assert model.kl_stops > 0
    assert all(update["train/epochs_run"] == int(update["train/epochs_run"]) for update in updates)


@pytest.mark.parametrize("scope", ["minibatch", "epoch"])
def test_rollback_leaves_the_policy_inside_the_limit(scope):
    limit = 1.5 * 0.01
    without_updates, updates = [], []
    for seed in range(2):
        options = {"target_kl": 0.01, "kl_stop_scope": scope, "seed": seed}
        without, of_seed = train(**options)
        without_updates += of_seed
        model, of_seed = train(**options, kl_rollback=True)
        updates += of_seed
        assert without.kl_stops > 0 and model.kl_stops > 0
    over = [update["kl_left"] for update in updates if update["kl_left"] > limit]
    over_without = [update["kl_left"] for update in without_updates if update["kl_left"] > limit]
    assert over_without, "the task is too easy to test rollback on"
    if scope == "epoch":
        assert not over, "measured over the whole rollout, so it holds exactly"
    else:
        # Measured on minibatches: it holds for them, and for the rollout up to their noise
        assert len(over) < len(over_without)
        assert max(update["kl_left"] for update in updates) < 2 * limit


def test_rollback_restores_the_optimizer_too():
    model, _ = train.__wrapped__(target_kl=0.01, kl_rollback=True, kl_stop_scope="epoch", n_epochs=2)
    model.target_kl, model.learning_rate = 1e-6, 1e-2
    model.lr_schedule = lambda _: 1e-2
    parameters = [p.clone() for p in model.policy.parameters()]
    steps = [state["step"].item() for state in model.policy.optimizer.state.values()]
    model.train()
    assert model.logger.name_to_value["train/kl_stopped"] == 1
    assert all(th.equal(before, now) for before, now in zip(parameters, model.policy.parameters(), strict=True))
    assert steps == [state["step"].item() for state in model.policy.optimizer.state.values()]


def test_options_are_saved_with_the_model(tmp_path):
    options = {"target_kl": 0.01, "kl_stop_factor": 1.2, "kl_stop_scope": "epoch", "kl_rollback": True}
    model = PPOExt("MlpPolicy", "CartPole-v1", n_steps=64, learning_rate=1e-2, seed=0, device="cpu", **options)
    model.learn(128)
    assert model.kl_stops > 0
    model.save(tmp_path / "model")
    loaded = PPOExt.load(tmp_path / "model")
    assert (loaded.kl_stop_factor, loaded.kl_stop_scope, loaded.kl_rollback) == (1.2, "epoch", True)
    assert loaded.kl_stops == model.kl_stops


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kl_stop_scope": "epochs"}, "did you mean 'epoch'"),
        ({"kl_stop_factor": 0.0}, "kl_stop_factor=0.0 must be positive"),
        ({"target_kl": -1.0}, "target_kl=-1.0 must be positive"),
        ({"kl_rollback": True}, "set target_kl"),
    ],
)
def test_bad_options_get_an_error_that_says_what_to_do(kwargs, message):
    with pytest.raises(ValueError, match=message):
        PPOExt("MlpPolicy", "CartPole-v1", **kwargs)
