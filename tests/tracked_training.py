"""Short trainings for tests of trackers."""

import imageio
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext.runs.agents.statistics import save_statistics

ROLLOUT = 128
NOT_FOR_TEXT = ("stdout", "log", "json", "csv")


def make_model(algorithm=PPO, **kwargs):
    env = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0), norm_reward=False)
    return algorithm("MlpPolicy", env, n_steps=ROLLOUT // 2, batch_size=64, n_epochs=1, seed=0, device="cpu", **kwargs)


def write_video(path):
    path.parent.mkdir(exist_ok=True)
    imageio.mimwrite(path, np.zeros((4, 32, 32, 3), np.uint8), fps=4)


class Busy(BaseCallback):
    """What other callbacks do in a training: evaluate older weights, save models, record videos, see something odd."""

    def __init__(self, run_folder, tracking):
        super().__init__()
        self._folder, self._tracking = run_folder, tracking

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.logger.record("env/obs_hist", np.array([0.0, 1.0, 1.0, np.nan]), exclude=NOT_FOR_TEXT)
        self.logger.record("rollout/broken", float("nan"))
        if self.num_timesteps == 3 * ROLLOUT:
            self.logger.record("eval/step", ROLLOUT)
            self.logger.record("eval/mean_reward", 42.0)
            self.logger.dump(self.num_timesteps)
            self.model.save(self._folder / "best_model")
            save_statistics(self.model, self._folder / "best_model")
            write_video(self._folder / "videos" / "agent-step-256.mp4")
            (self._folder / "videos" / "half-step-256.mp4").write_bytes(b"\0\0\0\x08ftyp\0\0\0\0mdat")
            for _ in range(3):
                self._tracking.alert("dead_relus", "Dead ReLUs", "Lower the learning rate.")


class Fail(BaseCallback):
    """In the second rollout."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        if self.num_timesteps > ROLLOUT:
            raise self._error
