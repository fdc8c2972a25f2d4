"""Trainings of a few steps that write into a folder."""

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

from sb3_ext import PPOExt

TINY = {"n_steps": 64, "batch_size": 64, "n_epochs": 2, "seed": 0, "device": "cpu"}


def make_model(folder, algorithm=PPOExt, **kwargs):
    """Its environments and its logger write into the folder."""
    model = algorithm("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0, monitor_dir=str(folder)), **kwargs)
    model.set_logger(configure(str(folder), ["csv", "json"]))
    return model
