"""Statistics are saved with each best model and each checkpoint, and give it the score that it had."""

import warnings

import numpy as np
import pytest
from drifting_env import make_normalized, make_vec_env
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext import PPOExt
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.runs.agents.statistics import load_statistics


def make_model(algorithm=PPO, env=None):
    settings = dict(n_steps=64, batch_size=32, learning_rate=0.01, seed=0, device="cpu")
    return algorithm("MlpPolicy", env or make_normalized(0.1), **settings)


def make_eval(folder, **kwargs):
    # Evaluates once, in the second of two rollouts
    settings = dict(best_model_save_path=str(folder), n_eval_episodes=2, eval_freq=70, verbose=0)
    return EvalCallback(make_normalized(training=False, norm_reward=False), **{**settings, **kwargs})


def score(model, env):
    return evaluate_policy(model, env, 2, deterministic=True)[0]


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
def test_the_best_model_has_the_score_again_that_it_had(tmp_path, algorithm):
    model = make_model(algorithm)
    evaluation = make_eval(tmp_path)
    model.learn(128, callback=[SaveNormalization(), evaluation])
    best = algorithm.load(tmp_path / "best_model", device="cpu")
    assert score(best, load_statistics(tmp_path / "best_model", make_vec_env())) == evaluation.best_mean_reward

    model.get_vec_normalize_env().save(tmp_path / "final.pkl")
    final = VecNormalize.load(tmp_path / "final.pkl", make_vec_env())
    final.training = final.norm_reward = False
    assert abs(score(best, final) - evaluation.best_mean_reward) > 0.1, "the final statistics would do as well"


def test_evaluation_and_the_file_have_the_statistics_of_training(tmp_path):
    at_the_time = []

    class Look(BaseCallback):
        def _on_step(self):
            at_the_time.append(self.model.get_vec_normalize_env().obs_rms.copy())
            return True

    evaluation = make_eval(tmp_path, callback_on_new_best=Look())
    make_model().learn(128, callback=[SaveNormalization(), evaluation])
    saved = load_statistics(tmp_path / "best_model", make_vec_env())
    for statistics in (evaluation.eval_env.obs_rms, saved.obs_rms):
        np.testing.assert_array_equal(statistics.mean, at_the_time[0].mean)
        np.testing.assert_array_equal(statistics.var, at_the_time[0].var)


def test_each_checkpoint_has_its_own(tmp_path):
    checkpoints = CheckpointCallback(50, str(tmp_path))
    make_model().learn(128, callback=[checkpoints, SaveNormalization()])
    counts = [load_statistics(tmp_path / f"rl_model_{n}_steps", make_vec_env()).obs_rms.count for n in (50, 100)]
    assert [round(count) for count in counts] == [51, 101]  # one more: the first observation


def test_callbacks_inside_of_others_are_found(tmp_path):
    nested = EveryNTimesteps(60, CheckpointCallback(1, str(tmp_path)))
    after_eval = make_eval(tmp_path / "eval", callback_after_eval=CheckpointCallback(1, str(tmp_path / "after")))
    make_model().learn(128, callback=[nested, after_eval, SaveNormalization()])
    for file in (
        "rl_model_vecnormalize_60_steps",
        "eval/best_model_vecnormalize",
        "after/rl_model_vecnormalize_70_steps",
    ):
        assert (tmp_path / f"{file}.pkl").is_file()


def test_what_happened_at_a_new_best_model_still_happens(tmp_path):
    stop = StopTrainingOnRewardThreshold(-1e9)
    model = make_model()
    model.learn(128, callback=[SaveNormalization(), make_eval(tmp_path, callback_on_new_best=stop)])
    assert model.num_timesteps == 70
    assert (tmp_path / "best_model_vecnormalize.pkl").is_file()


def test_learning_again_with_the_same_callbacks_saves_once(tmp_path):
    evaluation = make_eval(tmp_path)
    checkpoints = CheckpointCallback(50, str(tmp_path))
    callbacks = [evaluation, checkpoints, SaveNormalization()]
    model = make_model()
    model.learn(128, callback=callbacks)
    attached = evaluation.callback_on_new_best
    model.learn(128, callback=callbacks, reset_num_timesteps=False)
    assert evaluation.callback_on_new_best is attached
    assert (tmp_path / "rl_model_vecnormalize_250_steps.pkl").is_file()


def test_it_can_be_the_callback_on_a_new_best_model_itself(tmp_path):
    make_model().learn(128, callback=make_eval(tmp_path, callback_on_new_best=SaveNormalization()))
    load_statistics(tmp_path / "best_model", make_vec_env())


def test_it_works_with_an_off_policy_algorithm(tmp_path):
    env = make_normalized(0.1)
    model = SAC("MlpPolicy", env, learning_starts=1000, buffer_size=100, seed=0, device="cpu")
    model.learn(80, callback=[make_eval(tmp_path), SaveNormalization()])
    load_statistics(tmp_path / "best_model", make_vec_env())


def test_without_normalisation_it_does_nothing(tmp_path):
    checkpoints = CheckpointCallback(50, str(tmp_path))
    make_model(env=make_vec_env()).learn(64, callback=[checkpoints, SaveNormalization()])
    assert [path.name for path in tmp_path.iterdir()] == ["rl_model_50_steps.zip"]


@pytest.mark.parametrize(
    ("of_evaluation", "message"),
    [
        ({"training": True}, "can't be reproduced. Create it with training=False"),
        ({"training": False, "clip_obs": 3.0}, "clip_obs=10.0 in training and clip_obs=3.0 in evaluation"),
    ],
)
def test_an_evaluation_that_normalises_otherwise_is_told_of(tmp_path, of_evaluation, message):
    evaluation = EvalCallback(make_normalized(**of_evaluation), best_model_save_path=str(tmp_path), verbose=0)
    with pytest.warns(UserWarning, match=message):
        make_model().learn(64, callback=[evaluation, SaveNormalization()])


def test_an_evaluation_that_normalises_alike_gets_no_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model().learn(128, callback=[make_eval(tmp_path), SaveNormalization()])
