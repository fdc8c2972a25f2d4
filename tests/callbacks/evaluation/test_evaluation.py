"""Evaluation while an agent is trained: when it happens, what it writes, and how it ends a training."""

import json

import gymnasium as gym
import numpy as np
import pytest
from drifting_env import make_normalized
from drifting_env import make_vec_env as make_drifting
from rl_zoo3.utils import get_callback_list
from score_env import Stamp, StampedPPO, make_envs, make_model
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat, configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_ext import PPOExt
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.evaluation.options import EvaluationOptions
from sb3_ext.callbacks.evaluation.results import log_late
from sb3_ext.callbacks.report import Report
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.common.options import read_switch
from sb3_ext.runs.agents.statistics import load_statistics


def learn(model, evaluation, steps=1000):
    model.learn(steps, callback=[Stamp(), evaluation])
    return evaluation


def make_evaluation(folder=None, env=None, **options):
    return Evaluation(env or make_envs(), folder=folder, verbose=0, **{"episodes": 1, **options})


@pytest.mark.parametrize(
    ("n_envs", "options", "steps"),
    [
        (1, {"every": 100}, [100, 200, 300]),
        (3, {"every": 100}, [102, 201, 300]),
        (3, {"every": 100, "warmup": 150}, [201, 300]),
        (3, {"every": 100, "warmup": 200}, [201, 300]),
        (3, {"every": 2, "warmup": 376}, [378, 381, 384]),
        (1, {"every": 1, "warmup": 382}, [382, 383, 384]),
    ],
)
def test_it_is_due_by_timesteps_whatever_the_number_of_environments(n_envs, options, steps):
    evaluation = learn(make_model(n_envs), make_evaluation(**options), 330)
    assert evaluation.evaluations_timesteps == steps
    assert [results[0] for results in evaluation.evaluations_results] == steps


def test_a_training_that_goes_on_is_evaluated_at_the_same_steps():
    model, evaluation = make_model(2), make_evaluation(every=150)
    learn(model, evaluation, 128)
    model.learn(400, callback=[Stamp(), evaluation], reset_num_timesteps=False)
    assert evaluation.evaluations_timesteps == [150, 300, 450, 600]


@pytest.mark.parametrize("algorithm", [PPO, PPOExt, DQN])
def test_in_the_place_of_stock_it_gives_the_same(tmp_path, algorithm):
    def train(folder, make):
        env = make_vec_env("CartPole-v1", 2, seed=0)
        settings = {"learning_starts": 50} if algorithm is DQN else {"n_steps": 64, "batch_size": 32}
        stock = EvalCallback(
            make_vec_env("CartPole-v1", 2, seed=5),
            eval_freq=40,
            n_eval_episodes=3,
            log_path=str(folder),
            best_model_save_path=str(folder),
            verbose=0,
        )
        model = algorithm("MlpPolicy", env, seed=0, device="cpu", **settings)
        model.learn(256, callback=make(stock))
        return model, np.load(folder / "evaluations.npz"), algorithm.load(folder / "best_model", device="cpu")

    models, files, best = zip(
        *[train(tmp_path / "stock", lambda stock: stock), train(tmp_path / "ours", Evaluation.from_stock)], strict=True
    )
    assert set(files[0]) == set(files[1])
    for name in files[0]:
        np.testing.assert_array_equal(files[0][name], files[1][name])
    for pair in (models, best):
        for ours, stock in zip(*(model.policy.parameters() for model in pair), strict=True):
            np.testing.assert_array_equal(ours.detach(), stock.detach())
    assert best[0].num_timesteps == best[1].num_timesteps
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == ["best_model.zip", "evaluations.npz"]


def test_what_a_config_says_goes_before_stock():
    stock = EvalCallback(make_envs(), eval_freq=10, n_eval_episodes=7, deterministic=False, verbose=0)
    evaluation = Evaluation.from_stock(stock, EvaluationOptions(every=500, episodes=3, deterministic=True))
    assert (evaluation.n_eval_episodes, evaluation.deterministic) == (3, True)
    assert learn(make_model(), evaluation, 512).evaluations_timesteps == [500]


class Rows(KVWriter):
    """Keeps what is logged."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append((step, dict(key_values)))

    def close(self):
        pass


def test_a_row_is_logged_at_its_step():
    model, rows = make_model(), Rows()
    model.set_logger(Logger(None, [rows]))
    learn(model, make_evaluation(every=300, episodes=2), 512)
    (step, row), *_ = [(step, row) for step, row in rows.rows if "eval/step" in row]
    assert step == row["eval/step"] == row["time/total_timesteps"] == row["eval/mean_reward"] == 300
    assert (row["eval/n_episodes"], row["eval/std_reward"], row["eval/best_mean_reward"]) == (2, 0.0, 300.0)
    assert row["eval/time"] > 0


class Board(TensorBoardOutputFormat):
    """Keeps what TensorBoard would be given."""

    def __init__(self):
        self.rows = []

    write = Rows.write


def test_a_late_result_is_in_the_next_row_and_in_tensorboard_at_its_own_step():
    rows, board = Rows(), Board()
    logger = Logger(None, [rows])
    logger.output_formats.append(board)
    log_late(logger, {"eval/mean_reward": 1.0, "eval/step": 100}, 150)
    log_late(logger, {"eval/mean_reward": 2.0, "eval/step": 120}, 160)
    logger.dump(200)
    assert [(step, row["eval/step"], row["eval/mean_reward"]) for step, row in rows.rows] == [
        (160, 100, 1),
        (200, 120, 2),
    ]
    assert [(step, row["eval/mean_reward"]) for step, row in board.rows if len(row) == 2][:2] == [
        (100, 1.0),
        (120, 2.0),
    ]


def test_by_steps_the_file_is_filled_up_with_nan(tmp_path):
    class Growing(gym.Wrapper):
        """Each episode is one step longer."""

        length = 0

        def reset(self, **kwargs):
            self.length += 1
            self.unwrapped._length = self.length
            return self.env.reset(**kwargs)

    env = make_vec_env(lambda: Growing(make_envs().envs[0].unwrapped), 1)
    evaluation = learn(make_model(), make_evaluation(tmp_path, env, every=400, episodes=None, steps=6), 800)
    assert evaluation.evaluations_length == [[1, 2, 3], [5, 6]]
    file = np.load(tmp_path / "evaluations.npz")
    np.testing.assert_array_equal(file["ep_lengths"], [[1, 2, 3], [5, 6, np.nan]])
    np.testing.assert_array_equal(file["timesteps"], [400, 800])


def test_the_best_model_has_the_score_again_that_it_had(tmp_path):
    model = PPOExt(
        "MlpPolicy", make_normalized(0.1), n_steps=64, batch_size=32, learning_rate=0.01, seed=0, device="cpu"
    )
    env = make_normalized(training=False, norm_reward=False)
    evaluation = make_evaluation(tmp_path, env, every=70, final=True)
    model.learn(128, callback=[evaluation, SaveNormalization()])
    assert evaluation.evaluations_timesteps == [70, 128]
    best = PPOExt.load(tmp_path / "best_model", device="cpu")
    score, _ = evaluate_policy(best, load_statistics(tmp_path / "best_model", make_drifting()), 1)
    assert score == evaluation.best_mean_reward


@pytest.mark.parametrize(("window", "stops_at"), [(1, 600), (2, 600), (3, 800)])
def test_it_stops_when_a_full_window_of_evaluations_reaches_the_threshold(window, stops_at):
    """The score is the step: a window of 2 has 500 at 600, one of 3 has 600 at 800."""
    model = make_model()
    evaluation = make_evaluation(every=200, stop="eval", threshold=500, window=window)
    learn(model, evaluation)
    assert model.num_timesteps == stops_at
    assert max(model.trained_at) < stops_at, "trained after the stop"
    assert f"the last {window} evaluations" in evaluation.stop_reason
    assert "the threshold 500" in evaluation.stop_reason


@pytest.mark.parametrize(("threshold", "stops_at"), [(-1e9, 100), (-800.0, 250)])
def test_it_stops_when_a_full_window_of_training_episodes_reaches_the_threshold(threshold, stops_at):
    """Episodes have one step and a score of the step minus 1000: the mean of 100 is that of 50 steps before."""
    model = make_model(goal=1000)
    evaluation = make_evaluation(every=10**6, stop="rollout", threshold=threshold)
    learn(model, evaluation)
    assert abs(model.num_timesteps - stops_at) <= 6
    assert all(step < model.num_timesteps for step in getattr(model, "trained_at", [])), "trained after the stop"
    assert "training episodes" in evaluation.stop_reason


@pytest.mark.parametrize(
    ("options", "stops_at"),
    [
        ({"window": 1, "patience": 3, "stop_after": 0}, 400),
        ({"window": 2, "patience": 3, "stop_after": 0}, 500),
        ({"window": 1, "patience": 3, "stop_after": 0.7}, 700),
        ({"window": 1, "patience": 10}, 1000),
    ],
)
def test_it_stops_when_evaluations_no_longer_improve(options, stops_at, capsys):
    """Without a stamp the score is always the same, and the first full window is the best one."""
    model = make_model()
    evaluation = Evaluation(make_envs(), episodes=1, every=100, stop="plateau", **options)
    model.learn(1000, callback=evaluation)
    assert model.num_timesteps == (stops_at if stops_at < 1000 else 1024)
    if stops_at < 1000:
        assert "has not exceeded -0.002273 for" in evaluation.stop_reason
        assert f"No more improvement, training stops at {stops_at} steps" in capsys.readouterr().out
    else:
        assert evaluation.stop_reason is None


class StopAt(BaseCallback):
    def __init__(self, step):
        super().__init__()
        self._step = step

    def _on_step(self):
        return self.num_timesteps < self._step


def test_the_last_weights_are_evaluated_when_another_callback_ends_the_training():
    evaluation = Evaluation(make_envs(), episodes=1, every=10_000, final=True)
    model = make_model().learn(1000, callback=[evaluation, StopAt(150)])
    assert evaluation.last_step == model.num_timesteps < 1000


def test_a_plateau_is_the_reason_in_the_files_of_the_run(tmp_path):
    model = make_model()
    model.set_logger(configure(str(tmp_path), ["json"]))
    evaluation = make_evaluation(tmp_path, every=100, stop="plateau", window=1, patience=2, stop_after=0)
    model.learn(1000, callback=[evaluation, Report(str(tmp_path), plots=False, verbose=0)])
    facts = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    reason = facts["stop_reason"]
    assert "`patience`" in facts["stop_advice"]
    assert reason == evaluation.stop_reason and "evaluations has not exceeded" in reason
    assert f"after 300 steps of 1,000 ({reason})" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("min_improvement", "stops_at"), [(299, 1000), (300, 400)])
def test_only_a_clear_improvement_ends_the_waiting(min_improvement, stops_at):
    """Each evaluation is 100 better than the one before."""
    options = {"window": 1, "patience": 3, "stop_after": 0, "min_improvement": min_improvement}
    model = make_model()
    evaluation = learn(model, make_evaluation(every=100, stop="plateau", **options))
    assert evaluation.evaluations_timesteps[-1] == stops_at


def test_without_a_wish_to_stop_it_goes_on():
    model, evaluation = make_model(), make_evaluation(every=200, threshold=0, window=1)
    learn(model, evaluation, 512)
    assert (model.num_timesteps, evaluation.stop_reason) == (512, None)


def test_a_callback_that_it_calls_can_end_the_training():
    model = make_model()
    evaluation = make_evaluation(every=200, callback_on_new_best=StopTrainingOnRewardThreshold(300))
    learn(model, evaluation)
    assert (model.num_timesteps, evaluation.stop_reason) == (400, None)


@pytest.mark.parametrize("goal", [None, 1000])
def test_it_starts_when_the_rollout_score_has_passed_a_part_of_the_way(goal):
    """With a goal, scores are negative: half of the way is from -1000 to -500, as it is from 0 to 500."""
    evaluation = make_evaluation(every=300, start_at=0.5, threshold=0 if goal else 1000)
    learn(make_model(goal=goal), evaluation)
    first, *later = evaluation.evaluations_timesteps
    assert 500 < first < 600, "the mean of 100 episodes is late by 50 steps"
    assert later == [600, 900]


def test_the_threshold_is_the_one_of_the_spec_or_of_the_config():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu")
    evaluation = Evaluation(make_vec_env("CartPole-v1"), every=10**6)
    model.learn(8, callback=evaluation)
    assert evaluation.threshold == 475.0
    evaluation = Evaluation(make_vec_env("CartPole-v1"), every=10**6, threshold="1e2")
    model.learn(8, callback=evaluation)
    assert evaluation.threshold == 100.0


@pytest.mark.parametrize("options", [{"stop": "eval"}, {"start_at": 0.5}])
def test_without_a_threshold_it_says_what_is_missing(options):
    with pytest.raises(ValueError, match="needs a threshold, and the environment's spec has none"):
        learn(make_model(), make_evaluation(**options))


def test_scores_of_training_that_never_come_are_told_of():
    class Plain(StampedPPO):
        def _update_info_buffer(self, infos, dones=None):
            """Without a Monitor there is nothing in them."""

    env = DummyVecEnv([lambda: make_envs().envs[0].unwrapped])
    model = Plain("MlpPolicy", env, n_steps=64, batch_size=32, device="cpu")
    with pytest.warns(UserWarning, match="No training episode had a score"):
        learn(model, make_evaluation(stop="rollout", threshold=0), 64)


def test_it_can_be_named_in_a_config():
    (evaluation,) = get_callback_list({"callback": [{"sb3_ext.callbacks.Evaluation": {"every": 100}}]})
    env = VecNormalize(make_vec_env("CartPole-v1", 2), clip_obs=5.0)
    PPO("MlpPolicy", env, n_steps=64, batch_size=32, device="cpu").learn(128, callback=evaluation)
    assert evaluation.evaluations_timesteps == [100]
    assert (evaluation.eval_env.clip_obs, evaluation.eval_env.training) == (5.0, False)
    assert evaluation.eval_env.obs_rms.count > 100, "it has the statistics of training"


def test_environments_that_can_not_be_made_again_are_told_of():
    env = make_vec_env("CartPole-v1", wrapper_class=gym.wrappers.RecordEpisodeStatistics)
    with pytest.raises(ValueError, match=r"The spec can't make Monitor again for evaluation. Pass eval_env"):
        PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu").learn(8, callback=Evaluation())


def test_environments_that_are_not_normalised_alike_are_told_of():
    model = PPO("MlpPolicy", make_normalized(), n_steps=64, batch_size=32, device="cpu")
    with pytest.raises(ValueError, match="wrap both alike"):
        model.learn(64, callback=make_evaluation(env=make_drifting(), every=10))


def test_callbacks_are_called_when_they_are_with_stock():
    class Count(BaseCallback):
        def _on_step(self):
            return True

    after, best = Count(), Count()
    called = {"callback_after_eval": after, "callback_on_new_best": CallbackList([best])}
    learn(make_model(), make_evaluation(env=make_envs(goal=250), every=100, **called), 512)
    assert (after.n_calls, best.n_calls) == (5, 2)  # the best are at 100 and at 200, and 300 is as good as 200


def read_evaluation(raw):
    return read_switch(EvaluationOptions, raw, "evaluation")


def test_nothing_written_and_false_and_true():
    assert read_evaluation(None) is read_evaluation(False) is None
    assert read_evaluation(True) == read_evaluation({}) == EvaluationOptions()
    assert read_evaluation({"every": "2e4", "process": True}) == EvaluationOptions(every=20_000, process=True)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"evry": 100}, "did you mean 'every'"),
        ({"every": 0}, "must be at least 1"),
        ({"episodes": 2.5}, "must be a whole number"),
        ({"episodes": 2, "steps": 100}, "only one of them"),
        ({"stop": "evals"}, "did you mean 'eval'"),
        ({"stop": "eval", "patience": 3}, "patience is for plateaus only: it needs stop: plateau"),
        ({"stop": "plateau", "min_improvement": -1}, "min_improvement=-1 must be at least 0"),
        ({"busy": "hurry"}, "must be 'skip' or 'wait'"),
        ({"start_at": 1.5}, "must be at most 1"),
        ({"process": "yes"}, "must be true or false"),
        ({"threshold": "high"}, "must be a number"),
        (5, "must be true, false or a mapping"),
    ],
)
def test_a_mistake_is_told(written, said):
    with pytest.raises((TypeError, ValueError), match=said):
        read_evaluation(written)


def test_options_are_given_once():
    with pytest.raises(TypeError, match="not both"):
        Evaluation(options=EvaluationOptions(every=100), every=200)
