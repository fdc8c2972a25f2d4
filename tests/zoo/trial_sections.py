"""Sections for short trainings of studies, and a callback that keeps what was learned."""

from typing import ClassVar

from stable_baselines3.common.callbacks import BaseCallback

PPO = {"policy": "MlpPolicy", "n_timesteps": 300, "n_envs": 2, "n_steps": 64, "batch_size": 64, "n_epochs": 2}
DQN = {"policy": "MlpPolicy", "n_timesteps": 300, "learning_starts": 100, "policy_kwargs": "dict(net_arch=[16])"}


class KeepParameters(BaseCallback):
    """A callback of the section, which knows the model at the end."""

    kept: ClassVar[list] = []

    def _on_step(self):
        return True

    def _on_training_end(self):
        self.kept.append({name: value.clone() for name, value in self.model.policy.state_dict().items()})
