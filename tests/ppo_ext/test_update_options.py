"""Options of the update: adaptive learning rate, optimizer reset, Huber loss, normalised values."""

import numpy as np
import pytest
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt


def make(env="CartPole-v1", **kwargs):
    settings = {"n_steps": 64, "batch_size": 32, "n_epochs": 4, "seed": 0, "device": "cpu"}
    return PPOExt("MlpPolicy", make_vec_env(env, 2, seed=0), **{**settings, **kwargs})


@pytest.mark.parametrize("start", [1e-5, 1e-2])
def test_the_divergence_comes_near_the_target_from_either_side(start):
    class Recorded(PPOExt):
        def train(self):
            super().train()
            self.kls = [*getattr(self, "kls", []), self.logger.name_to_value["train/rollout_kl"]]

    model = Recorded("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0), n_steps=64, batch_size=32, n_epochs=4, seed=0,
                     device="cpu", learning_rate=start, kl_adaptive_lr=0.01)  # fmt: skip
    model.learn(128 * 40)
    assert not 0.005 < model.kls[0] < 0.02, "the task is too easy to test adaptation on"
    assert 0.005 < np.median(model.kls[20:]) < 0.02


def test_the_target_of_the_learning_rate_may_be_a_schedule(tmp_path):
    falling = {"start": 0.02, "end": 0.001}
    model = make(kl_adaptive_lr=falling).learn(128 * 20)
    assert model.kl_adaptive_lr == model.logger.name_to_value["schedule/kl_adaptive_lr"] == pytest.approx(0.001)
    assert model._adaptive_lr < make(kl_adaptive_lr=0.02).learn(128 * 20)._adaptive_lr
    model.save(tmp_path / "model")
    loaded = PPOExt.load(tmp_path / "model", env=make_vec_env("CartPole-v1", 2), device="cpu").learn(128)
    assert loaded.kl_adaptive_lr == pytest.approx(0.001)
    assert PPOExt.load(tmp_path / "model", kl_adaptive_lr=None, device="cpu").kl_adaptive_lr is None


def test_an_update_that_is_taken_back_lowers_the_learning_rate():
    options = {"kl_adaptive_lr": 0.01, "target_kl": 0.01, "kl_stop_scope": "epoch", "kl_rollback": True}
    model = make(learning_rate=1e-2, **options).learn(128)
    assert model.kl_stops == 1
    assert model._adaptive_lr == pytest.approx(1e-2 / 1.5)


def test_the_adapted_learning_rate_is_saved(tmp_path):
    model = make(kl_adaptive_lr=0.01, learning_rate=1e-4).learn(128 * 5)
    used = model.policy.optimizer.param_groups[0]["lr"]
    assert model.logger.name_to_value["train/learning_rate"] == used != 1e-4
    model.save(tmp_path / "model")
    loaded = PPOExt.load(tmp_path / "model", env=make_vec_env("CartPole-v1", 2), device="cpu")
    assert loaded._adaptive_lr == model._adaptive_lr != 1e-4


def test_a_schedule_and_an_adaptive_learning_rate_exclude_each_other():
    with pytest.raises(ValueError, match="give a constant learning_rate"):
        make(kl_adaptive_lr=0.01, learning_rate="lin_0.001")


@pytest.mark.parametrize(("reset", "steps"), [("never", 64), ("lr_jump", 32)])
def test_the_optimizer_forgets_its_moments_when_the_learning_rate_jumps(reset, steps):
    jump = {"start": 1e-3, "end": 1e-4, "shape": "step", "to": 300}
    model = make(learning_rate=jump, reset_optimizer=reset, n_epochs=4).learn(512)
    assert next(iter(model.policy.optimizer.state.values()))["step"] == steps


@pytest.mark.parametrize("reset", ["never", "lr_jump"])
@pytest.mark.parametrize(("factor", "jumped"), [(1.0, False), (1.9, False), (2.0, True), (0.5, True), (0.55, False)])
def test_a_learning_rate_jumps_when_it_doubles_or_halves(factor, jumped, reset):
    model = make(learning_rate=0.25, reset_optimizer=reset, n_epochs=1).learn(128)
    model.lr_schedule = lambda _: 0.25 * factor
    model._update_learning_rate(model.policy.optimizer)
    assert model.policy.optimizer.param_groups[0]["lr"] == 0.25 * factor
    assert (not model.policy.optimizer.state) == (jumped and reset == "lr_jump")


def test_an_update_that_is_stopped_lowers_the_learning_rate_by_what_stopped_it():
    """Measured over the whole rollout the divergence is below half the target, at which the rate would rise."""
    model = make(learning_rate=1e-3, kl_adaptive_lr=0.02, target_kl=0.02, kl_stop_factor=2.0).learn(128)
    model._adaptive_lr, model._rollout_kl = 1e-3, lambda: 0.001
    model._adapt_learning_rate(stopped=True, last_kl=0.05)
    assert model._adaptive_lr == pytest.approx(1e-3 / 1.5)
    assert model.logger.name_to_value["train/rollout_kl"] == 0.001


def test_normalised_values_keep_the_optimizer_and_its_options():
    options = {"optimizer_class": th.optim.RMSprop, "optimizer_kwargs": {"alpha": 0.9}}
    model = make(normalize_values=True, learning_rate=0.25, policy_kwargs=options)
    (group,) = model.policy.optimizer.param_groups
    assert type(model.policy.optimizer) is th.optim.RMSprop
    assert (group["lr"], group["alpha"]) == (0.25, 0.9)
    assert {id(p) for p in group["params"]} == {id(p) for p in model.policy.parameters()}


@pytest.mark.parametrize("fast", ["alone", False])
def test_normalised_values_are_clipped_in_normalised_units(fast):
    """In the returns' own units a clip range of 0.2 would leave nothing to learn at this scale."""
    losses = []
    for clip_range_vf in (None, 0.2):
        model = make("Pendulum-v1", normalize_values=True, clip_range_vf=clip_range_vf, fast=fast, n_epochs=1)
        model.learn(256)
        losses.append(model.logger.name_to_value["train/value_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=0.2)


@pytest.mark.parametrize("fast", ["alone", False])
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_epochs_are_counted_with_a_minibatch_that_is_a_stub(fast):
    logged = make(batch_size=50, n_epochs=3, fast=fast).learn(128).logger.name_to_value
    assert logged["train/epochs_run"] == 3
    assert logged["train/n_updates"] == 3


def test_a_scope_without_a_target_gets_a_warning():
    with pytest.warns(UserWarning, match="kl_stop_scope='epoch' does nothing without target_kl"):
        make(kl_stop_scope="epoch")


def test_bounds_may_be_one_number():
    assert make(kl_adaptive_lr=0.01, kl_adaptive_lr_bounds=(1e-3, 1e-3)).kl_adaptive_lr_bounds == (1e-3, 1e-3)


def test_huber_loss_is_less_moved_by_large_errors():
    mse = make("Pendulum-v1").learn(128).logger.name_to_value["train/value_loss"]
    huber = make("Pendulum-v1", value_loss="huber").learn(128).logger.name_to_value["train/value_loss"]
    assert huber < mse / 10


def test_normalised_values_have_losses_of_order_one_and_answers_in_the_returns_units(tmp_path):
    model = make("Pendulum-v1", normalize_values=True, n_epochs=10, learning_rate=1e-3).learn(128 * 10)
    assert 0.01 < model.logger.name_to_value["train/value_loss"] < 10
    obs, _ = model.policy.obs_to_tensor(model.env.reset())
    values = model.policy.predict_values(obs)
    assert values.mean() < -10, "Pendulum's returns are far below zero"
    model.save(tmp_path / "model")
    loaded = PPOExt.load(tmp_path / "model", device="cpu")
    assert th.equal(loaded.policy.predict_values(obs), values)


def test_an_agent_of_stock_ppo_goes_on_with_normalised_values(tmp_path):
    env = make_vec_env("Pendulum-v1", 2, seed=0)
    stock = PPO("MlpPolicy", env, n_steps=64, device="cpu").learn(128)
    stock.save(tmp_path / "model")
    model = PPOExt.load(tmp_path / "model", env=env, device="cpu", normalize_values=True)
    obs, _ = model.policy.obs_to_tensor(env.reset())
    th.testing.assert_close(model.policy.predict_values(obs), stock.policy.predict_values(obs))
    model.learn(128)


def test_numbers_that_yaml_left_as_strings_are_read_as_numbers():
    model = make(kl_adaptive_lr="1e-2", kl_adaptive_lr_bounds=["1e-5", "1e-3"], kl_stop_factor="2e0",
                 policy_kwargs={"weight_decay": "1e-4", "dropout": "1e-1"})  # fmt: skip
    assert (model.kl_adaptive_lr, model.kl_adaptive_lr_bounds, model.kl_stop_factor) == (0.01, (1e-5, 1e-3), 2.0)
    model.learn(128)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kl_stop_factor": "lin_2"}, "kl_stop_factor='lin_2' must be a number"),
        ({"kl_adaptive_lr_bounds": [1e-2, 1e-5]}, "the smaller one first"),
        ({"value_loss": "hubber"}, "did you mean 'huber'"),
        ({"reset_optimizer": "lr_jum"}, "did you mean 'lr_jump'"),
        ({"kl_adaptive_lr": 0.0}, "kl_adaptive_lr=0.0 must be positive"),
        ({"kl_adaptive_lr_bounds": [0, 1e-2]}, "must be positive, the smaller one first"),
        ({"kl_adaptive_lr": True}, "kl_adaptive_lr=True is not a schedule"),
    ],
)
def test_bad_options_get_an_error_that_says_what_to_do(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(**kwargs)
