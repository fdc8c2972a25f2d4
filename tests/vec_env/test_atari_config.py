"""Which RL Zoo configs the native Atari environment can stand in for."""

import gymnasium as gym
import pytest
import yaml
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.atari_wrappers import AtariWrapper

import sb3_ext.envs
from sb3_ext.hyperparams import hyperparams_file
from sb3_ext.vec_env.atari_config import AtariSettings, native_atari_settings

WRAPPER = "stable_baselines3.common.atari_wrappers.AtariWrapper"


@pytest.mark.parametrize(
    "env_wrapper", [WRAPPER, [WRAPPER], AtariWrapper, {WRAPPER: {}}, [{WRAPPER: {"noop_max": 30}}], {WRAPPER: None}]
)
def test_every_way_to_write_the_wrapper_is_understood(env_wrapper):
    settings = native_atari_settings("Pong-v5", {}, env_wrapper, 4)
    assert isinstance(settings, AtariSettings)
    expected = AtariSettings(spec=gym.spec("Pong-v5"), game="pong")
    assert settings == expected


def test_keyword_arguments_reach_the_settings():
    wrapper_kwargs = {"noop_max": 5, "frame_skip": 2, "screen_size": 64}
    wrapper_kwargs |= {"terminal_on_life_loss": False, "clip_reward": False}
    env_kwargs = {"full_action_space": True, "repeat_action_probability": 0.1, "max_num_frames_per_episode": 400}
    settings = native_atari_settings("SpaceInvaders-v5", env_kwargs, {WRAPPER: wrapper_kwargs}, 3)
    assert isinstance(settings, AtariSettings)
    given = {**wrapper_kwargs, "full_action_space": True, "repeat_action_probability": 0.1, "max_frames": 400}
    assert {name: getattr(settings, name) for name in given} == given
    assert (settings.game, settings.frame_stack) == ("space_invaders", 3)
    assert settings.spec.kwargs["repeat_action_probability"] == 0.1


def test_the_registered_spec_stays_as_it_is():
    native_atari_settings("Pong-v5", {"repeat_action_probability": 0.5}, WRAPPER, 4)
    assert gym.spec("Pong-v5").kwargs["repeat_action_probability"] == 0.25


@pytest.mark.parametrize(
    "env_id, env_kwargs, sticky", [("PongNoFrameskip-v4", {}, 0.0), ("ALE/Pong-v5", {"frameskip": 1}, 0.25)]
)
def test_ids_without_a_frame_skip_of_their_own_are_possible(env_id, env_kwargs, sticky):
    settings = native_atari_settings(env_id, env_kwargs, WRAPPER, 4)
    assert isinstance(settings, AtariSettings)
    assert settings.repeat_action_probability == sticky


def test_sticky_actions_of_the_wrapper_are_possible_where_the_game_has_none():
    wrapper = {WRAPPER: {"action_repeat_probability": 0.3}}
    settings = native_atari_settings("PongNoFrameskip-v4", {}, wrapper, 4)
    assert isinstance(settings, AtariSettings) and settings.repeat_action_probability == 0.3
    assert "sticky actions" in native_atari_settings("Pong-v5", {}, wrapper, 4)


def test_the_time_limit_of_an_id_counts():
    gym.register("ShortPong-v0", "ale_py.env:AtariEnv", max_episode_steps=500, kwargs={"game": "pong", "frameskip": 1})
    settings = native_atari_settings("ShortPong-v0", {}, WRAPPER, 4)
    assert isinstance(settings, AtariSettings) and settings.max_frames == 500


def test_the_atari_section_of_our_config_can_use_it():
    assert sb3_ext.envs.register_atari() and ExperimentManager.is_atari("Pong-v5")
    section = yaml.safe_load(hyperparams_file("ppo_ext").read_text())["atari"]
    settings = native_atari_settings(
        "Pong-v5", section.get("env_kwargs"), section["env_wrapper"], section["frame_stack"]
    )
    assert isinstance(settings, AtariSettings)


@pytest.mark.parametrize("normalize", [False, None, "{'norm_obs': False, 'norm_reward': True}", {"norm_obs": False}])
def test_normalised_rewards_are_possible(normalize):
    assert isinstance(native_atari_settings("Pong-v5", {}, WRAPPER, 4, normalize=normalize), AtariSettings)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"env_id": "CartPole-v1"}, "not one of ale-py's"),
        ({"env_id": "Nothing-v0"}, "not an environment"),
        ({"env_id": "ALE/Pong-v5"}, "frameskip=4"),
        ({"env_id": "Pong-v4"}, "frameskip"),
        ({"env_kwargs": {"mode": 1}}, "mode=1"),
        ({"env_kwargs": {"obs_type": "ram"}}, "obs_type='ram'"),
        ({"env_kwargs": {"render_mode": "human"}}, "render_mode='human'"),
        ({"env_kwargs": {"repeat_action_prob": 0}}, "did you mean 'repeat_action_probability'"),
        ({"env_kwargs": {"repeat_action_probability": "0.25"}}, "not a probability"),
        ({"env_wrapper": None}, "is not stable_baselines3"),
        ({"env_wrapper": "gymnasium.wrappers.ClipReward"}, "ClipReward"),
        ({"env_wrapper": [WRAPPER, "sb3_ext.wrappers.ActionMaskFromInfo"]}, "alone"),
        ({"env_wrapper": {WRAPPER: {"skip": 4}}}, "did you mean 'frame_skip'"),
        ({"env_wrapper": {WRAPPER: {"frame_skip": 0}}}, "frame_skip=0"),
        ({"env_wrapper": {WRAPPER: {"screen_size": 0}}}, "screen_size=0"),
        ({"env_wrapper": {WRAPPER: {"noop_max": -1}}}, "noop_max=-1"),
        ({"frame_stack": 0}, "frame_stack=0"),
        ({"vec_env_wrapper": "stable_baselines3.common.vec_env.VecMonitor"}, "VecMonitor"),
        ({"normalize": True}, "norm_obs"),
        ({"normalize": "{'norm_obs': True}"}, "norm_obs"),
        ({"monitor_kwargs": {"info_keywords": ("lives",)}}, "info_keywords"),
    ],
)
def test_what_is_not_possible_gets_a_reason(changes, reason):
    config = {"env_id": "Pong-v5", "env_kwargs": {}, "env_wrapper": WRAPPER, "frame_stack": 4, **changes}
    answer = native_atari_settings(**config)
    assert isinstance(answer, str) and reason in answer
    assert answer.endswith((".", "?"))
