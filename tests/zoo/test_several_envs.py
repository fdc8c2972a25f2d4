"""``ext: {curriculum}`` and ``ext: {members}`` in a hyperparameter file."""

import argparse

import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
from rl_zoo3 import exp_manager
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext.common.model_file import callback_state

STAGES = [
    {"name": "short", "env_kwargs": {"max_episode_steps": 20}, "next": {"steps": 100}},
    {"name": "real"},
]
MEMBERS = [{"name": "plain"}, {"name": "short", "env_kwargs": {"max_episode_steps": 20}}]


class Written(KVWriter):
    """Keeps what a logger writes."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def train(tmp_path, options):
    hyperparams = {"n_envs": 2, "n_steps": 64, "batch_size": 64, "n_epochs": 1, "ext": {"vec_env": "dummy", **options}}
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(num_threads=1),
        "ppo_ext",
        "CartPole-v1",
        str(tmp_path),
        n_timesteps=512,
        eval_freq=256,
        n_eval_episodes=2,
        hyperparams=hyperparams,
        verbose=1,
        seed=1,
    )
    model, _ = manager.setup_experiment()
    written = Written()
    model.set_logger(Logger(folder=None, output_formats=[written]))
    model.learn(512, callback=manager.callbacks)
    return manager, model, written.rows


def test_a_training_goes_through_the_stages_and_is_evaluated_in_the_last(tmp_path, capsys):
    _, model, rows = train(tmp_path, {"curriculum": {"stages": STAGES}})
    assert [row["curriculum/stage"] for row in rows if "curriculum/stage" in row][-1] == 2
    assert "on to stage 2 of 2, 'real'" in capsys.readouterr().out
    assert callback_state(model)["curriculum"]["name"] == "real"
    lengths = [row["eval/mean_ep_length"] for row in rows if "eval/mean_ep_length" in row]
    assert lengths and max(lengths) > 20


def test_each_member_has_its_score_and_is_evaluated(tmp_path):
    manager, model, rows = train(tmp_path, {"members": MEMBERS})
    (evaluation,) = [callback for callback in manager.callbacks if isinstance(callback, EvalCallback)]
    assert evaluation.eval_env.get_attr("member") == ["plain", "short"]
    assert model.n_envs == 2
    names = {name for row in rows for name in row}
    assert {"member/plain/score", "member/short/score", "member/short/length"} <= names
    assert max(row["member/short/length"] for row in rows if "member/short/length" in row) <= 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"curriculum": {"stages": []}}, "must not be empty"),
        ({"members": [{"nam": "a"}]}, "did you mean 'name'"),
    ],
)
def test_mistakes_are_told(tmp_path, options, said):
    with pytest.raises((TypeError, ValueError), match=said):
        train(tmp_path, options)
