"""A rollout's data is used exactly: each sample in one minibatch an epoch."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import MaskablePPOExt, PPOExt, RecurrentPPOExt
from sb3_ext.fast.policy import FastUpdate

POLICIES = {PPOExt: "MlpPolicy", RecurrentPPOExt: "MlpLstmPolicy", MaskablePPOExt: "MlpPolicy"}


class CountingEnv(gym.Env):
    """Observations are serial numbers, different in each environment."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if not hasattr(self, "_serial"):
            self._serial = 10_000.0 * seed
        return self._next(), {}

    def step(self, action):
        return self._next(), 0.0, bool(self.np_random.random() < 0.2), False, {}

    def action_masks(self):
        return [True, True]

    def _next(self):
        self._serial += 1
        return np.array([self._serial], dtype=np.float32)


@pytest.mark.parametrize("batch_size", [16, 20])
@pytest.mark.parametrize("algorithm", POLICIES)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_each_sample_is_in_exactly_one_minibatch_an_epoch(algorithm, batch_size):
    seen = []

    class Recorded(algorithm):
        def _evaluate(self, batch):
            # RecurrentPPO pads sequences, with a mask for what is real
            real = batch.mask > 0 if hasattr(batch, "mask") else slice(None)
            seen.append(batch.observations.flatten()[real].tolist())
            return super()._evaluate(batch)

    env = make_vec_env(CountingEnv, 4, seed=1)
    model = Recorded(POLICIES[algorithm], env, n_steps=16, batch_size=batch_size, n_epochs=3, seed=0, device="cpu")
    model.learn(64)
    samples = [sample for batch in seen for sample in batch]
    assert len(samples) == 3 * 16 * 4
    values, counts = np.unique(samples, return_counts=True)
    assert len(values) == 16 * 4
    assert (counts == 3).all()


@pytest.mark.parametrize("batch_size", [16, 20])
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_each_sample_is_in_exactly_one_minibatch_an_epoch_on_the_fast_path(batch_size):
    seen = []

    class Recorded(PPOExt):
        def _make_update(self, settings):
            update = super()._make_update(settings)
            assert isinstance(update, FastUpdate)
            kernel = update._policy._kernel

            class RecordingKernel:
                def update(self, actor, critic, observations, actions, columns, orders, bounds, *args):
                    assert bounds.tolist() == [*range(0, 64, batch_size), 64]
                    seen.extend(observations[orders].flatten().tolist())
                    return kernel.update(actor, critic, observations, actions, columns, orders, bounds, *args)

            update._policy._kernel = RecordingKernel()
            return update

    env = make_vec_env(CountingEnv, 4, seed=1)
    settings = {"n_steps": 16, "batch_size": batch_size, "n_epochs": 3, "seed": 0, "device": "cpu"}
    Recorded("MlpPolicy", env, **settings).learn(64)
    values, counts = np.unique(seen, return_counts=True)
    assert len(values) == 16 * 4
    assert (counts == 3).all()


def test_a_stub_of_a_minibatch_gets_a_warning_with_the_numbers():
    with pytest.warns(UserWarning, match=r"truncated mini-batch of size 4"):
        PPOExt("MlpPolicy", make_vec_env("CartPole-v1", 4), n_steps=16, batch_size=20)
