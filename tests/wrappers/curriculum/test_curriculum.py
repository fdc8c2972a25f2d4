"""Stages of a curriculum: how they are written, and how an environment changes from one to the next."""

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TransformReward
from level_env import LEVEL_ENV, LevelEnv
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor, load_results
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.curriculum.env import STAGE_KEY, CurriculumEnv, wrap_in_curriculum
from sb3_ext.wrappers.curriculum.options import Back, Next, Plateau, read_curriculum
from sb3_ext.wrappers.timing import time_limit

TWO_LEVELS = {"stages": [{"next": {"steps": 100}}, {"env_kwargs": {"level": 10.0}}]}


def test_all_of_a_stage_is_read():
    config = read_curriculum(
        {
            "window": 7,
            "eval_stage": "current",
            "stages": [
                {"name": "easy", "env_kwargs": {"level": 1}, "next": {"score": "1e2", "steps": "1e5"}},
                {
                    "attributes": {"bonus": 2},
                    "reset_options": {"start": 1},
                    "window": 3,
                    "next": {"plateau": {"steps": 500, "min_improvement": 2}},
                    "back": {"score_below": -5, "min_steps": 50},
                },
                None,
            ],
        }
    )
    easy, middle, last = config.stages
    assert (easy.name, easy.window, easy.next, easy.back) == ("easy", 7, Next(score=100.0, steps=100_000), None)
    assert easy.env_kwargs == {"level": 1} and not easy.is_plain
    assert (middle.name, middle.window) == ("stage 2", 3)
    assert middle.next == Next(plateau=Plateau(steps=500, min_improvement=2.0))
    assert middle.back == Back(score_below=-5.0, min_steps=50)
    assert middle.attributes == {"bonus": 2} and middle.reset_options == {"start": 1}
    assert last.is_plain and last.next is None
    assert config.eval_stage == "current"


def two(first, second=None):
    return {"stages": [first, second or {}]}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (None, "needs stages"),
        ({"stage": []}, "needs stages"),
        ({"stages": []}, "stages=.* must not be empty"),
        ({"stages": {"a": {}}}, "must be a list"),
        ({"stages": ["calm"]}, "must be a mapping"),
        ({"stages": [{}], "windw": 3}, "did you mean 'window'"),
        ({"stages": [{}], "window": 0}, "window=0 must be at least 1"),
        ({"stages": [{}], "window": 2.5}, "window=2.5 must be a whole number"),
        ({"stages": [{}], "eval_stage": "lats"}, "did you mean 'last'"),
        ({"stages": [{"env_kwarg": {}}]}, "stages: 1 has no option 'env_kwarg': did you mean 'env_kwargs'"),
        ({"stages": [{"env": "CartPol-v1"}]}, "stages: 1: env='CartPol-v1' is not an id of an environment.*CartPole"),
        ({"stages": [{"env_kwargs": [1]}]}, r"env_kwargs=\[1\] must be a mapping"),
        ({"stages": [{"attributes": 3}]}, "attributes=3 must be a mapping"),
        ({"stages": [{"name": 3}]}, "must be a string"),
        (two({"name": "a", "next": {"steps": 1}}, {"name": "a"}), "stage 1 has this name already"),
        (two({}), "without next, .* the stages after it don't come"),
        ({"stages": [{"next": {"steps": 1}}]}, "last stage, there is none to move on to"),
        ({"stages": [{"back": {"score_below": 1}}]}, "first stage, there is none to go back to"),
        (two({"next": {}}), "is empty"),
        (two({"next": {"scor": 1}}), "did you mean 'score'"),
        (two({"next": {"score": "high"}}), "must be a number"),
        (two({"next": {"score": float("nan")}}), "must be a finite number"),
        (two({"next": {"steps": 0}}), "steps=0 must be at least 1"),
        (two({"next": {"plateau": {"min_improvement": 1}}}), "needs steps"),
        (two({"next": {"plateau": {"steps": 5, "min_improvement": -1}}}), "at least 0"),
        (two({"next": {"steps": 1}}, {"back": {"min_steps": 5}}), "needs score_below"),
        (two({"next": {"steps": 1}, "calls": {"set_level": 1}}), "needs 'set_level', .* can't be taken back"),
        (
            {"stages": [{"next": {"steps": 1}}, {"next": {"score": 5}, "back": {"score_below": 6}}, {}]},
            "can't go back below a score of 6",
        ),
    ],
)
def test_a_mistake_in_a_config_is_told(written, said):
    with pytest.raises((TypeError, ValueError), match=said):
        read_curriculum(written)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"env_kwargs": {"levle": 1}}, "stage 2 .*can't be made: .*levle"),
        ({"env_kwargs": {"n_actions": 3}}, r"stage 2 .*action_space is Discrete\(3\), but must be Discrete\(2\)"),
        ({"env": "CartPole-v1"}, "stage 2 .*observation_space"),
        ({"attributes": {"bnus": 1}}, "stage 2 .*did you mean 'bonus'"),
        ({"attributes": {"spec": {}}}, "stage 2 .*can't be set"),
    ],
)
def test_a_stage_that_can_not_be_played_is_told_before_the_first_one(last, said):
    with pytest.raises(ValueError, match=said):
        wrap_in_curriculum(gym.make(LEVEL_ENV), two({"next": {"steps": 1}}, last))


def test_what_is_called_must_be_a_method():
    with pytest.raises(ValueError, match="'level' is not a method but float"):
        wrap_in_curriculum(gym.make(LEVEL_ENV), {"stages": [{"calls": {"level": 1}}]})


def test_an_environment_of_no_id_can_not_get_other_arguments():
    with pytest.raises(ValueError, match="not made by gym"):
        wrap_in_curriculum(LevelEnv(), TWO_LEVELS)


def play(env, n_episodes, seed=None):
    """Observations, and the raw score and the stage of each episode."""
    observations, episodes = [], []
    for episode in range(n_episodes):
        observations.append(env.reset(seed=seed if episode == 0 else None)[0])
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(0)
            observations.append(observation)
            over = terminated or truncated
        episodes.append((info["episode"]["r"], info[STAGE_KEY]))
    return np.array(observations), episodes


STAGES = {
    "arguments": {"env_kwargs": {"level": 10.0}},
    "another id": {"env": "OtherLevel-v0", "env_kwargs": {"level": 10.0}},
    "an attribute": {"attributes": {"bonus": 10.0}},
    "an attribute by its path": {"attributes": {"unwrapped.bonus": 10.0}},
}


@pytest.mark.parametrize("changed", STAGES.values(), ids=STAGES)
def test_a_stage_begins_with_the_next_episode_and_ends_without_a_trace(changed):
    curriculum = {"stages": [{"next": {"steps": 1}}, {**changed, "next": {"steps": 1}}, {}]}
    env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV)), curriculum)
    env.reset(seed=0)
    env.get_wrapper_attr("set_stage")(1)
    assert env.get_wrapper_attr("stage") == 0
    assert [env.step(0)[1] for _ in range(4)] == [0.0] * 4
    assert play(env, 2)[1] == [(40.0, 1), (40.0, 1)]
    for stage in (2, 1, 0):
        env.get_wrapper_attr("set_stage")(stage)
        assert play(env, 1)[1] == [(40.0 if stage == 1 else 0.0, stage)]


def test_reset_options_and_calls_are_those_of_the_stage():
    stages = [{"calls": {"set_level": 1.0}, "next": {"steps": 1}}, {"calls": {"set_level": 5.0}}]
    stages[1]["reset_options"] = {"start": 2}
    env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV)), {"stages": stages})
    assert play(env, 1)[1] == [(4.0, 0)]
    env.get_wrapper_attr("set_stage")(1)
    assert play(env, 1)[1] == [(10.0, 1)]
    env.reset(options={"start": 3})
    assert env.step(0)[2], "options that are given go first"


def test_wrappers_outside_monitor_stay_and_their_parameters_can_be_changed():
    class Doubled(gym.RewardWrapper):
        factor = 2.0

        def reward(self, reward):
            return self.factor * reward

    stages = [{"env_kwargs": {"level": 1.0}, "next": {"steps": 1}}, {"attributes": {"factor": 3.0}}]
    env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV, level=7.0)), {"stages": stages}, Doubled)
    env.reset()
    assert env.step(0)[1] == 2.0
    env.get_wrapper_attr("set_stage")(1)
    env.reset()
    assert env.step(0)[1] == 21.0
    assert play(env, 1)[1] == [(28.0, 1)], "the score is raw"


def test_a_time_limit_below_monitor_holds_in_all_stages():
    env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV)), TWO_LEVELS, lambda env: time_limit(env, 3))
    assert play(env, 1)[1] == [(0.0, 0)]
    env.get_wrapper_attr("set_stage")(1)
    assert play(env, 2)[1] == [(30.0, 1)] * 2


class Lives(gym.Wrapper):
    """As Atari's wrapper does it: the loss of a life ends an episode, and the game goes on with the next."""

    game_is_over = True

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.game_is_over = terminated or truncated
        return observation, reward, True, truncated, info

    def reset(self, **kwargs):
        if self.game_is_over:
            return self.env.reset(**kwargs)
        observation, _, self.game_is_over, _, info = self.env.step(0)
        return observation, info


def test_a_game_that_goes_on_after_the_loss_of_a_life_stays_in_its_stage():
    env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV, length=5)), TWO_LEVELS, Lives)
    env.reset()
    env.step(0)
    env.get_wrapper_attr("set_stage")(1)
    env.reset()
    assert env.step(0)[1] == 0.0
    env.reset()
    assert env.step(0)[4][STAGE_KEY] == 0
    env.reset()
    assert env.step(0)[1] == 10.0


def test_a_reset_in_the_middle_of_an_episode_begins_the_stage_too():
    env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV)), TWO_LEVELS)
    env.reset()
    env.step(0)
    env.get_wrapper_attr("set_stage")(1)
    env.reset()
    assert env.step(0)[1] == 10.0


@pytest.mark.parametrize(
    "stages", [TWO_LEVELS, {"stages": [{"env_kwargs": {"level": 10.0}, "next": {"steps": 1}}, {}]}]
)
def test_a_seed_gives_the_same_episodes_in_environments_that_are_first_used_later(stages):
    def observations(seed):
        env = wrap_in_curriculum(Monitor(gym.make(LEVEL_ENV)), stages)
        first, _ = play(env, 2, seed)
        env.get_wrapper_attr("set_stage")(1)
        second, _ = play(env, 2)
        return np.concatenate([first, second])

    assert (observations(3) == observations(3)).all()
    assert len(np.unique(observations(3), axis=0)) == 20, "no stage repeats another one's random numbers"
    assert not (observations(3)[10:] == observations(4)[10:]).any()


def test_environments_that_are_left_are_closed():
    env = wrap_in_curriculum(gym.make(LEVEL_ENV), TWO_LEVELS)
    base = env.unwrapped
    env.get_wrapper_attr("set_stage")(1)
    env.reset()
    made = env.unwrapped
    env.get_wrapper_attr("set_stage")(0)
    env.reset()
    assert env.unwrapped is base and made.closed and not base.closed
    env.get_wrapper_attr("set_stage")(1)
    env.reset()
    env.close()
    assert base.closed and env.unwrapped.closed


@pytest.mark.parametrize("eval_stage", ["last", "current"])
def test_evaluation_is_in_the_last_stage_unless_it_is_to_follow_training(eval_stage):
    config = read_curriculum({**TWO_LEVELS, "eval_stage": eval_stage})
    env = config.wrap(gym.make(LEVEL_ENV), evaluation=True)
    assert env.get_wrapper_attr("stage") == (1 if eval_stage == "last" else 0)
    assert config.wrap(gym.make(LEVEL_ENV)).get_wrapper_attr("stage") == 0


VEC_ENVS = {
    "dummy": (DummyVecEnv, {}),
    "subproc": (SubprocVecEnv, {"start_method": "fork"}),
    "multicore": (MulticoreVecEnv, {"start_method": "fork", "n_workers": 2}),
}


@pytest.mark.parametrize(("vec_env_cls", "kwargs"), VEC_ENVS.values(), ids=VEC_ENVS)
def test_the_stage_of_a_running_vectorised_environment_changes(closing, tmp_path, vec_env_cls, kwargs):
    vec_env = closing(
        make_vec_env(
            LEVEL_ENV,
            n_envs=3,
            seed=0,
            monitor_dir=str(tmp_path),
            wrapper_class=read_curriculum(TWO_LEVELS).wrap,
            vec_env_cls=vec_env_cls,
            vec_env_kwargs=kwargs,
        )
    )
    vec_env.reset()
    vec_env.env_method("set_stage", 1)
    scores = []
    for _ in range(12):
        _, _, _, infos = vec_env.step(np.zeros(3, dtype=int))
        scores += [(info["episode"]["r"], info[STAGE_KEY]) for info in infos if "episode" in info]
    assert scores == [(0.0, 0)] * 3 + [(40.0, 1)] * 6
    assert vec_env.get_attr("stage") == [1, 1, 1]
    assert sorted(load_results(str(tmp_path))["r"]) == [0.0] * 3 + [40.0] * 6


def test_it_goes_to_other_processes_whole():
    wrap = cloudpickle.loads(cloudpickle.dumps(read_curriculum(TWO_LEVELS).wrap))
    env = cloudpickle.loads(cloudpickle.dumps(wrap(Monitor(gym.make(LEVEL_ENV)))))
    env.get_wrapper_attr("set_stage")(1)
    assert play(env, 1)[1] == [(40.0, 1)]


def test_frames_are_those_of_the_stage():
    env = wrap_in_curriculum(gym.make(LEVEL_ENV, render_mode="rgb_array"), TWO_LEVELS, stage=1)
    env.reset()
    assert env.render_mode == "rgb_array" and (env.render() == 10).all()


def test_both_checkers_are_content():
    stages = [{"env_kwargs": {"enable_wind": True}, "next": {"steps": 1}}, {}]
    env = wrap_in_curriculum(gym.make("LunarLander-v3"), {"stages": stages})
    check_env(env, skip_render_check=True)
    check_env_for_sb3(env)


def test_the_spec_makes_it_again():
    env = wrap_in_curriculum(gym.make(LEVEL_ENV), TWO_LEVELS, lambda env: TransformReward(env, float))
    again = env.spec.make()
    assert [type(layer) for layer in (again, again.env)] == [type(env), TransformReward]
    assert isinstance(again.env.env, CurriculumEnv)
