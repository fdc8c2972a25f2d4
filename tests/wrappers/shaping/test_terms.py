"""Named terms are added to the reward and reported, and scores stay those of the raw reward."""

import math
import pickle

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.callbacks.training_progress import TrainingProgress
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.base import report
from sb3_ext.wrappers.shaping.known_envs import CartPoleShaping
from sb3_ext.wrappers.shaping.terms import RewardTerms


class Countdown(gym.Env):
    """Observes the steps that are left. Each gives 1; the episode terminates when none is."""

    observation_space = gym.spaces.Box(0, 5, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = 5
        return self._observe(), {}

    def step(self, action):
        self._left -= 1
        return self._observe(), 1.0, self._left == 0, False, {}

    def _observe(self):
        return np.array([self._left], np.float32)


class Shaping(RewardTerms):
    """Terms of the state before, the state after and the action, and one that keeps something over the episode."""

    def begin_episode(self, observation, info):
        self._actions = 0

    def term_before(self, step):
        return step.previous[0]

    def term_after(self, step):
        return step.observation[0]

    def term_actions(self, step):
        self._actions += step.action
        return self._actions


class Scaled(Shaping):
    def __init__(self, env, scale, **kwargs):
        super().__init__(env, **kwargs)
        self._scale = scale

    def term_after(self, step):
        return self._scale * super().term_after(step)


def play(env, actions=(0, 1, 1, 0, 1), seed=0):
    """Rewards of an episode, and the info of its last step."""
    env.reset(seed=seed)
    steps = [env.step(action) for action in actions]
    return [reward for _, reward, *_ in steps], steps[-1][-1]


@pytest.mark.parametrize(
    ("terms", "rewards"),
    [
        ({"after": 1}, [5, 4, 3, 2, 1]),
        ({"after": -0.5}, [-1, -0.5, 0, 0.5, 1]),
        ({"before": 1, "after": "1e0"}, [10, 8, 6, 4, 2]),
        ({"actions": 10}, [1, 11, 21, 21, 31]),
        ({"reward": 0, "after": 1}, [4, 3, 2, 1, 0]),
        ({"reward": 2}, [2, 2, 2, 2, 2]),
    ],
)
def test_terms_are_added_with_their_weights(terms, rewards):
    env = Shaping(Countdown(), terms)
    for _ in range(2):
        assert play(env)[0] == rewards


def test_a_weight_may_follow_a_schedule_of_the_training_in_inner_shapers_too():
    inner = Shaping(Countdown(), {"after": {"start": 2, "end": 1, "to": 0.5}})
    env = Shaping(inner, {"before": "lin_1"})
    assert play(env)[0] == [1 + 2 * 4 + 5, 1 + 2 * 3 + 4, 1 + 2 * 2 + 3, 1 + 2 * 1 + 2, 1 + 0 + 1]
    env.set_training_progress(0.5)
    assert play(env)[0] == [1 + 4 + 2.5, 1 + 3 + 2, 1 + 2 + 1.5, 1 + 1 + 1, 1 + 0 + 0.5]
    env.set_training_progress(1.0)
    assert play(env)[0] == [5, 4, 3, 2, 1]


def test_the_training_tells_how_far_it_is():
    env = make_vec_env(lambda: Shaping(Countdown(), {"after": "lin_1"}), 2)
    PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu").learn(32, callback=TrainingProgress())
    assert [play(shaped)[0][0] for shaped in env.envs] == [1 + 4 * 0.5] * 2


def test_the_end_of_an_episode_reports_each_term_with_its_weight():
    rewards, info = play(Shaping(Countdown(), {"before": 0.1, "after": 2.0, "reward": 3.0}))
    numbers = {"reward/before": 1.5, "reward/after": 20.0, "reward/raw": 5.0, "reward/shaped": sum(rewards)}
    assert info["ext_episode"] == pytest.approx(numbers)
    assert sum(rewards) == pytest.approx(3 * 5 + 1.5 + 20)


def test_an_episode_that_was_left_early_is_not_in_the_next_ones_sums():
    env = Shaping(Countdown(), {"after": 1.0})
    play(env, actions=(0, 0))
    assert play(env)[1]["ext_episode"]["reward/after"] == 10


def test_functions_can_be_terms():
    env = RewardTerms(Countdown(), {"waste": 0.5}, functions={"waste": lambda step: -float(step.action)})
    assert play(env)[0] == [1, 0.5, 0.5, 1, 0.5]


def test_shapers_in_each_other_report_the_environments_own_reward_as_raw():
    inner = Shaping(Countdown(), {"before": 1.0, "after": 1.0})
    rewards, info = play(RewardTerms(inner, {"after": 2.0, "one": 1.0}, {"after": len_of, "one": len_of}))
    assert info["ext_episode"] == {
        "reward/raw": 5,
        "reward/before": 15,
        "reward/after": 10 + 10,
        "reward/one": 5,
        "reward/shaped": sum(rewards),
    }


def len_of(step):
    return len(step.observation)


def test_a_report_keeps_what_others_reported():
    info = {}
    report(info, {"env/gravity": -9})
    report(info, {"reward/raw": np.float32(2)})
    assert info == {"ext_episode": {"env/gravity": -9.0, "reward/raw": 2.0}}
    assert {type(value) for value in info["ext_episode"].values()} == {float}


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"afer": 1.0}, "Shaping has no term 'afer': did you mean 'after'"),
        ({"rewrd": 1.0}, "did you mean 'reward'"),
        ({"after": "much"}, "weight of after='much' is not a schedule: write a number"),
        ({"after": {"start": 1, "to": 5000}}, "weight of after is .* must be shares of training"),
        ({"after": abs}, "weight of after is a function"),
        ({"after": math.nan}, "must be a finite number"),
        (["after"], "must map names to weights"),
        (None, "needs terms with weights: actions, after, before"),
    ],
)
def test_wrong_terms_get_a_clear_error(terms, error):
    with pytest.raises(ValueError, match=error):
        Shaping(Countdown(), terms)


def test_a_wrong_parameter_gets_a_clear_error():
    with pytest.raises(TypeError, match="Shaping has no parameter 'term': did you mean 'terms'"):
        Shaping(Countdown(), term={"after": 1.0})


def test_a_subclass_can_have_parameters_of_its_own():
    env = Scaled(gym.make("CartPole-v1"), 2, terms={"actions": 1.0})
    again = gym.make(env.spec)
    assert isinstance(again, Scaled)
    assert play(again)[0] == play(env)[0]
    assert play(Scaled(Countdown(), scale=2, terms={"after": 1.0}))[0] == [9, 7, 5, 3, 1]


def test_a_term_can_not_take_the_name_of_a_metric():
    with pytest.raises(ValueError, match="can't be called 'raw'"):
        RewardTerms(Countdown(), {"raw": 1.0}, {"raw": len_of})


def test_a_term_that_is_not_a_number_is_told():
    env = RewardTerms(Countdown(), {"bad": 1.0}, {"bad": lambda step: step.observation[0] * np.nan})
    env.reset(seed=0)
    with pytest.raises(ValueError, match="the term 'bad' is nan"):
        env.step(0)


def test_a_wrapper_for_one_environment_refuses_others():
    class ForCountdown(Shaping):
        made_for = (Countdown,)

    with pytest.raises(ValueError, match="ForCountdown is for Countdown"):
        ForCountdown(gym.make("CartPole-v1"), {"after": 1.0})


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_a_copy_by_pickle_goes_on_like_the_original(pickler):
    env = Shaping(Countdown(), {"after": 1.0, "actions": 1.0})
    play(env, actions=(1, 1))
    copy = pickler.loads(pickler.dumps(env))
    assert [copy.step(action)[1] for action in (1, 0, 1)] == [env.step(action)[1] for action in (1, 0, 1)]


@pytest.mark.parametrize("vec_env_cls", [DummyVecEnv, SubprocVecEnv, MulticoreVecEnv])
def test_every_vectorised_environment_hands_the_report_on(vec_env_cls, closing):
    env = closing(
        make_vec_env(
            Countdown,
            3,
            seed=0,
            wrapper_class=Shaping,
            wrapper_kwargs={"terms": {"after": 1.0}},
            vec_env_cls=vec_env_cls,
            vec_env_kwargs={} if vec_env_cls is DummyVecEnv else {"start_method": "fork"},
        )
    )
    env.reset()
    for _ in range(5):
        _, rewards, dones, infos = env.step(np.zeros(3, int))
    assert rewards.tolist() == [1, 1, 1]
    assert dones.all()
    for info in infos:
        assert info["episode"]["r"] == 5
        assert info["ext_episode"] == {"reward/raw": 5, "reward/after": 10, "reward/shaped": 15}


def shaped_vec_env():
    return make_vec_env(Countdown, 2, seed=0, wrapper_class=Shaping, wrapper_kwargs={"terms": {"after": 100.0}})


def test_score_and_best_model_stay_raw(tmp_path):
    evaluation = EvalCallback(
        shaped_vec_env(), eval_freq=16, n_eval_episodes=4, best_model_save_path=tmp_path, log_path=tmp_path, verbose=0
    )
    model = PPO("MlpPolicy", shaped_vec_env(), n_steps=16, batch_size=16, n_epochs=1, seed=0, device="cpu")
    model.learn(64, callback=evaluation)
    assert model.rollout_buffer.rewards.max() > 100
    assert {episode["r"] for episode in model.ep_info_buffer} == {5}
    assert np.load(tmp_path / "evaluations.npz")["results"].tolist() == [[5] * 4] * 2
    assert evaluation.best_mean_reward == 5
    assert (tmp_path / "best_model.zip").exists()


def test_the_score_stays_raw_where_sb3_adds_the_monitor():
    env = Shaping(Countdown(), {"after": 100.0})
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0, device="cpu").learn(16)
    assert {episode["r"] for episode in model.ep_info_buffer} == {5}
    assert evaluate_policy(model, env, 2, warn=False)[0] == 5


def test_an_environment_with_a_monitor_gets_no_second_one():
    env = Shaping(Monitor(Countdown()), {"after": 1.0})
    assert isinstance(env.env.env, Countdown)


def test_shaping_can_be_switched_off_for_all_shapers_of_a_chain():
    inner = CartPoleShaping(gym.make("CartPole-v1"), terms={"centring": 5.0})
    env = CartPoleShaping(inner, terms={"angle": 5.0})
    env.reset(seed=0)
    assert env.step(0)[1] != 1.0
    env.set_shaping(False)
    assert [env.step(action)[1] for action in (0, 1, 0)] == [1.0] * 3
    env.set_shaping(True)
    assert env.step(0)[1] != 1.0
