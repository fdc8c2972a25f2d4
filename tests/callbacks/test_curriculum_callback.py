"""The callback that moves a training through a curriculum: when it moves, what it keeps, and what it tells."""

import warnings

import pytest
from level_env import LEVEL_ENV
from rl_zoo3.utils import get_callback_list
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sb3_ext import PPOExt
from sb3_ext.callbacks.curriculum import Curriculum, CurriculumProgress
from sb3_ext.common.model_file import callback_state
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.curriculum.options import Back, Next, Plateau, Stage, read_curriculum

#: Timesteps of a rollout: 2 environments, each with 2 episodes of 4 steps
ROLLOUT = 16


@pytest.mark.parametrize(
    ("stage", "progress", "expected"),
    [
        (Stage(name="s", window=2, next=Next(score=5)), {"scores": [4, 6]}, 1),
        (Stage(name="s", window=2, next=Next(score=5)), {"scores": [4, 5]}, None),
        (Stage(name="s", window=3, next=Next(score=5)), {"scores": [9, 9]}, None),
        (Stage(name="s", next=Next(steps=100)), {"stage_steps": 100}, 1),
        (Stage(name="s", next=Next(steps=100)), {"stage_steps": 99}, None),
        (Stage(name="s", window=1, next=Next(score=5, steps=9)), {"scores": [5]}, 1),
        (Stage(name="s", window=1, next=Next(score=5, steps=9)), {"scores": [4], "stage_steps": 9}, 1),
        (Stage(name="s", window=1, back=Back(score_below=0, min_steps=50)), {"scores": [-1], "stage_steps": 50}, -1),
        (Stage(name="s", window=1, back=Back(score_below=0, min_steps=50)), {"scores": [-1], "stage_steps": 49}, None),
        (Stage(name="s", window=1, back=Back(score_below=0, min_steps=50)), {"scores": [0], "stage_steps": 50}, None),
        (Stage(name="s", window=2, back=Back(score_below=0)), {"scores": [-1], "stage_steps": 50}, None),
        (Stage(name="s"), {"scores": [9], "stage_steps": 10**9}, None),
    ],
)
def test_a_condition_decides(stage, progress, expected):
    decision = CurriculumProgress(**progress).decide(stage)
    assert (decision and decision[0]) == expected


def test_a_plateau_is_when_the_score_stays_within_the_smallest_improvement_that_counts():
    stage = Stage(name="s", window=2, next=Next(plateau=Plateau(steps=100, min_improvement=1.0)))
    progress = CurriculumProgress()

    def at(steps, score):
        progress.stage_steps = steps
        progress.add_score(score, window=2)
        return progress.decide(stage)

    assert at(400, 3) is None, "there is no mean of two yet"
    assert at(500, 3) is None
    assert at(590, 7) is None, "5 is better than 3"
    assert at(689, 4) is None, "5.5 is not better by 1, but 99 steps are not 100"
    assert at(690, 8)[0] == 1, "6 is not better by more than 1"


def test_no_more_scores_are_kept_than_are_needed():
    progress = CurriculumProgress()
    for score in range(1000):
        progress.add_score(score, window=5)
    assert progress.scores == [995, 996, 997, 998, 999]


class Follow(BaseCallback):
    """Notes the stage after each rollout, and the raw score of each episode with the rollout that it ended in."""

    def __init__(self, curriculum):
        super().__init__()
        self.curriculum, self.stages, self.scores = curriculum, [], [[]]

    def _on_step(self):
        self.scores[-1] += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        return True

    def _on_rollout_end(self):
        self.stages.append(self.curriculum.progress.stage)
        self.scores.append([])


def make_env(config, vec_env_cls=DummyVecEnv, n_envs=2, evaluation=False, **kwargs):
    return make_vec_env(
        LEVEL_ENV,
        n_envs,
        seed=0,
        wrapper_class=lambda env: config.wrap(env, evaluation=evaluation),
        vec_env_cls=vec_env_cls,
        vec_env_kwargs=kwargs,
    )


def make_model(env, algorithm=PPO):
    return algorithm("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")


def learn(model, config, n_rollouts, *callbacks, verbose=0, **kwargs):
    curriculum = Curriculum(config, verbose=verbose)
    follow = Follow(curriculum)
    model.learn(n_rollouts * ROLLOUT, callback=[curriculum, follow, *callbacks], **kwargs)
    return follow


def config_of(*stages, window=2, **kwargs):
    return read_curriculum({"stages": list(stages), "window": window, **kwargs})


LEVELS = [
    {"name": "low", "env_kwargs": {"level": 1.0}, "next": {"score": 4.0, "steps": 1000}},
    {"name": "middle", "env_kwargs": {"level": 2.0}, "next": {"steps": 2 * ROLLOUT}},
    {"name": "high", "env_kwargs": {"level": 3.0}},
]

VEC_ENVS = {
    "dummy": (DummyVecEnv, {}),
    "subproc": (SubprocVecEnv, {"start_method": "fork"}),
    "multicore": (MulticoreVecEnv, {"start_method": "fork", "n_workers": 2}),
}


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
@pytest.mark.parametrize(("vec_env_cls", "kwargs"), VEC_ENVS.values(), ids=VEC_ENVS)
def test_one_model_goes_through_all_stages_with_raw_scores(closing, algorithm, vec_env_cls, kwargs):
    config = config_of(*LEVELS)
    env = closing(VecNormalize(make_env(config, vec_env_cls, **kwargs)))
    follow = learn(make_model(env, algorithm), config, 5)
    assert follow.stages == [1, 1, 2, 2, 2]
    # The first episodes of a rollout have begun in the stage before
    assert [set(scores) for scores in follow.scores[:5]] == [{4.0}, {4.0, 8.0}, {8.0}, {8.0, 12.0}, {12.0}]


def test_scores_of_the_stage_before_do_not_count():
    # At 40, the first stage's episodes would be enough for the second stage
    stages = [{"env_kwargs": {"level": 10.0}, "next": {"score": 40.0}}, {"next": {"score": 30.0}}, {}]
    config = config_of(*stages, window=1)
    assert learn(make_model(make_env(config)), config, 4).stages == [1, 1, 1, 1]


def test_it_goes_back_when_a_stage_is_too_hard_and_on_again():
    hard = {"env_kwargs": {"level": -1.0}, "back": {"score_below": 0.0, "min_steps": 2 * ROLLOUT}}
    config = config_of({"next": {"steps": 2 * ROLLOUT}}, hard)
    assert learn(make_model(make_env(config)), config, 8).stages == [0, 1, 1, 0, 0, 1, 1, 0]


def test_it_moves_on_from_a_plateau():
    config = config_of({"next": {"plateau": {"steps": 2 * ROLLOUT}}}, {})
    assert learn(make_model(make_env(config)), config, 4).stages == [0, 0, 1, 1]


def test_off_policy_algorithms_go_through_it_too():
    config = config_of({"next": {"steps": 20}}, {"env_kwargs": {"level": 1.0}})
    model = DQN("MlpPolicy", make_env(config), learning_starts=10, buffer_size=100, device="cpu")
    curriculum = Curriculum(config)
    model.learn(40, callback=curriculum)
    assert curriculum.progress.stage == 1 and curriculum.progress.score == 4.0


def test_the_stage_is_logged_and_a_change_is_told(capsys):
    class Records(Logger):
        rows = []  # noqa: RUF012

        def dump(self, step=0):
            self.rows.append({k: v for k, v in self.name_to_value.items() if k.startswith("curriculum/")})
            super().dump(step)

    config = config_of(*LEVELS)
    model = make_model(make_env(config))
    model.set_logger(Records(None, []))
    learn(model, config, 2, verbose=1)
    assert Records.rows == [
        {"curriculum/stage": 2, "curriculum/stage_steps": 0},
        {"curriculum/stage": 2, "curriculum/stage_steps": ROLLOUT, "curriculum/score": 8.0},
    ]
    said = "Curriculum: on to stage 2 of 3, 'middle', at 16 steps: score 4 reached 4 in 'low' (16 steps)"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("normalize", [False, True])
def test_a_model_that_is_loaded_goes_on_in_its_stage(tmp_path, normalize):
    def env():
        env = make_env(config)
        return VecNormalize(env) if normalize else env

    config = config_of(*LEVELS)
    model = make_model(env(), PPOExt)
    learn(model, config, 2)
    assert callback_state(model)["curriculum"]["name"] == "middle"
    model.save(tmp_path / "model")
    # As RL Zoo does with -i: other environments, and timesteps counted from 0
    follow = learn(PPOExt.load(tmp_path / "model", env=env()), config, 2)
    assert follow.stages == [2, 2], "one rollout of the second stage's two was over"
    assert set(follow.scores[0]) == {8.0} and set(follow.scores[1]) == {8.0, 12.0}


def test_a_second_call_of_learn_goes_on_without_a_break():
    config = config_of(*LEVELS)
    model = make_model(make_env(config))
    learn(model, config, 2)
    follow = learn(model, config, 2, reset_num_timesteps=False)
    assert follow.stages == [2, 2]


def test_a_checkpoint_within_a_rollout_has_the_latest(tmp_path):
    class Save(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == ROLLOUT + 10:
                self.model.save(tmp_path / "model")
            return True

    config = config_of(*LEVELS)
    learn(make_model(make_env(config)), config, 2, Save())
    state = callback_state(PPO.load(tmp_path / "model"))["curriculum"]
    assert (state["stage"], state["stage_steps"], state["scores"]) == (1, 10, [])


def test_a_curriculum_that_has_changed_is_told_apart_by_names(tmp_path):
    config = config_of(*LEVELS)
    model = make_model(make_env(config))
    learn(model, config, 2)
    longer = config_of({"name": "lowest", "next": {"steps": 1}}, *LEVELS)
    saved = callback_state(model)["curriculum"]
    assert CurriculumProgress.restored(saved, longer.stages).stage == 2
    with pytest.warns(UserWarning, match="was in stage 'middle', but the curriculum has stage 1: it starts"):
        assert CurriculumProgress.restored(saved, config_of({}).stages).stage == 0


@pytest.mark.parametrize(("eval_stage", "expected"), [("last", [12.0, 12.0, 12.0]), ("current", [4.0, 8.0, 12.0])])
def test_evaluation_means_the_last_stage_unless_it_is_to_follow(tmp_path, eval_stage, expected):
    config = config_of(*LEVELS, eval_stage=eval_stage)
    eval_env = make_env(config, n_envs=1, evaluation=True)
    evaluate = EvalCallback(eval_env, n_eval_episodes=2, eval_freq=8, log_path=str(tmp_path), verbose=0)
    # Evaluated at the last step of a rollout, before the stage changes
    learn(make_model(make_env(config)), config, 4, evaluate)
    means = [results[0] for results in evaluate.evaluations_results]
    assert [means[0], means[1], means[3]] == expected


def test_rl_zoo_makes_it_from_what_a_config_would_have():
    config = config_of(*LEVELS)
    (callback,) = get_callback_list({"callback": [config.callback_entry(verbose=1)]})
    assert isinstance(callback, Curriculum) and callback.options is config and callback.verbose == 1


def test_environments_without_stages_are_told():
    model = make_model(make_vec_env(LEVEL_ENV, 2))
    with pytest.raises(ValueError, match=r"pass CurriculumOptions\.wrap to make_vec_env"):
        learn(model, config_of(*LEVELS), 1)


def test_a_training_too_short_for_its_stages_is_told():
    config = config_of({"next": {"steps": 3 * ROLLOUT}}, {})
    with pytest.warns(UserWarning, match="take at least 48 steps, but the training has only 48"):
        learn(make_model(make_env(config)), config, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        learn(make_model(make_env(config)), config, 4)
