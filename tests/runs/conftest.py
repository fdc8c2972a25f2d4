"""A training that tests of records and reports read back."""

import json

import pytest
from small_training import TINY, make_model
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext.callbacks.report import Report


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A training with all that belongs to it: rows, evaluations, Monitor's files, alerts, and the report."""
    folder = tmp_path_factory.mktemp("runs") / "CartPole-v1_1"
    folder.mkdir()
    alerts = [
        {"id": "kl_high", "metric": "train/approx_kl", "count": 4, "share": 0.25, "first_step": 256, "last_step": 1024}
        | {"advice": "lower learning_rate"},
        {
            "id": "silent",
            "metric": "train/loss",
            "count": 0,
            "share": 0.0,
            "first_step": 0,
            "last_step": 0,
            "advice": "",
        },
    ]
    (folder / "alerts.json").write_text(json.dumps(alerts))
    evaluation = EvalCallback(
        make_vec_env("CartPole-v1", seed=1), n_eval_episodes=3, eval_freq=200, log_path=str(folder), verbose=0
    )
    model = make_model(folder, **TINY)
    model.learn(2000, callback=[evaluation, Report(folder, charts=["train/entropy_loss"])])
    return folder
