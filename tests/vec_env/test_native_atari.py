"""The native Atari environment against the stock stack: where both start from the same state, they are equal."""

import signal
import warnings

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv, MaxAndSkipEnv
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor, load_results
from stable_baselines3.common.vec_env import VecFrameStack, VecMonitor, VecTransposeImage

from sb3_ext.common.env_checks import warn_double_frame_skip
from sb3_ext.vec_env.native_atari import make_native_atari_env

PPO_KWARGS = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "device": "cpu"}
NO_NOOPS = {"noop_max": 0}


def stock(env_id, n_envs=2, seed=None, frame_stack=4, **kwargs):
    return VecTransposeImage(VecFrameStack(make_atari_env(env_id, n_envs, seed=seed, **kwargs), frame_stack))


def shared_seed(n_envs=2):
    """A seed of which ale-py's AtariEnv makes seeds that fit the C++ side, so that sticky actions are the same."""
    fits = [np.random.SeedSequence(seed).generate_state(2)[1] < 2**31 for seed in range(100)]
    return next(seed for seed in range(100) if all(fits[seed : seed + n_envs]))


def both(env_id, n_envs=2, **kwargs):
    kwargs = {"wrapper_kwargs": NO_NOOPS, **kwargs}
    seed = shared_seed(n_envs)
    native_kwargs = {key: value for key, value in kwargs.items() if key != "exact_pixels"}
    return stock(env_id, n_envs, seed, **native_kwargs), make_native_atari_env(env_id, n_envs, seed, **kwargs)


def play(env, n_steps, seed=0):
    """Observations, rewards, dones and infos of random play."""
    rng = np.random.default_rng(seed)
    steps = [(env.reset().copy(), None, None, [])]
    for _ in range(n_steps):
        observations, rewards, dones, infos = env.step(rng.integers(0, env.action_space.n, env.num_envs))
        steps.append((observations.copy(), rewards, dones, infos))
    return steps


def infos_of(steps):
    return [info for *_, infos in steps for info in infos]


def without_clock(info):
    info = {key: value for key, value in info.items() if key != "terminal_observation"}
    if "episode" in info:
        info["episode"] = {"r": info["episode"]["r"], "l": info["episode"]["l"]}
    return info


OTHER_OPTIONS = {"terminal_on_life_loss": False, "clip_reward": False, "frame_skip": 3, "screen_size": 64}


@pytest.mark.parametrize(
    "env_id, options, n_steps",
    [
        ("Pong-v5", {}, 950),
        ("Breakout-v5", {}, 400),
        ("SpaceInvaders-v5", {}, 500),
        ("Breakout-v5", OTHER_OPTIONS, 400),
    ],
)
def test_from_the_same_state_everything_is_equal_to_the_stock_stack(env_id, options, n_steps):
    envs = both(env_id, wrapper_kwargs={**NO_NOOPS, **options})
    expected, played = (play(env, n_steps) for env in envs)
    ended_games = 0
    for (obs, rewards, dones, infos), (obs2, rewards2, dones2, infos2) in zip(expected, played, strict=True):
        assert np.array_equal(obs, obs2)
        assert np.array_equal(rewards, rewards2) and np.array_equal(dones, dones2)
        for info, info2 in zip(infos, infos2, strict=True):
            assert without_clock(info) == without_clock(info2)
            ended_games += "episode" in info
            if "terminal_observation" in info:
                last, last2 = info["terminal_observation"], info2["terminal_observation"]
                # The newest frame of a game over is cut short, in SB3 and in C++ at another place
                n_equal = 3 if "episode" in info else 4
                assert np.array_equal(last[:n_equal], last2[:n_equal])
    assert ended_games > 0


def test_observation_and_action_spaces_are_those_of_the_stock_stack():
    expected, env = both("Breakout-v5", n_envs=1, frame_stack=3)
    assert env.observation_space == expected.observation_space
    assert env.action_space == expected.action_space
    assert env.reset().shape == expected.reset().shape == (1, 3, 84, 84)


def test_an_episode_starts_with_zeros_before_its_first_frame():
    env = make_native_atari_env("Breakout-v5", n_envs=1, seed=0)
    steps = play(env, 100)
    first_of_life = next(obs for obs, _, dones, _ in steps[1:] if dones[0])
    for observation in (steps[0][0], first_of_life):
        assert not observation[0, :3].any()
        assert observation[0, 3].any()


def test_frames_pooled_in_grey_differ_in_few_pixels():
    expected, played = (play(env, 200) for env in both("Pong-v5", exact_pixels=False))
    differences = np.abs(np.array([a[0].astype(int) - b[0] for a, b in zip(expected, played, strict=True)]))
    assert differences.mean() < 0.1
    assert (differences > 0).mean() < 0.01
    assert differences.max() < 40
    for (_, rewards, dones, _), (_, rewards2, dones2, _) in zip(expected[1:], played[1:], strict=True):
        assert np.array_equal(rewards, rewards2) and np.array_equal(dones, dones2)


def test_a_time_limit_truncates_where_the_stock_stack_does():
    envs = both("SpaceInvaders-v5", env_kwargs={"max_num_frames_per_episode": 80})
    expected, played = (play(env, 100) for env in envs)
    truncations = 0
    for info, info2 in zip(infos_of(expected), infos_of(played), strict=True):
        assert without_clock(info) == without_clock(info2)
        if info["TimeLimit.truncated"]:
            truncations += 1
            assert info2["episode"]["l"] == 80
            assert np.array_equal(info["terminal_observation"], info2["terminal_observation"])
    assert truncations == 2 * 5


def test_a_lost_life_ends_an_episode_but_not_the_game():
    env = make_native_atari_env("Breakout-v5", n_envs=1, seed=0)
    lives_at_ends = [info["lives"] for info in infos_of(play(env, 250)) if "terminal_observation" in info]
    assert lives_at_ends[:5] == [4, 3, 2, 1, 0]


def test_the_score_of_a_game_is_raw_while_rewards_are_signs():
    steps = play(make_native_atari_env("SpaceInvaders-v5", n_envs=2, seed=0), 700)
    scores = [info["episode"]["r"] for info in infos_of(steps) if "episode" in info]
    assert scores and max(scores) > 20 and all(score % 5 == 0 for score in scores)
    assert set(np.concatenate([rewards for _, rewards, *_ in steps[1:]])) == {0.0, 1.0}


def test_seeds_reproduce_and_games_differ():
    first, again, other = (play(make_native_atari_env("Pong-v5", 2, seed=seed), 60) for seed in (5, 5, 6))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a[0], b[0]) for a, b in zip(first, other, strict=True))
    assert any(not np.array_equal(a[0][0], a[0][1]) for a in first)


@pytest.mark.parametrize("seed", [5, 2**32 - 1])
def test_seeding_an_environment_that_has_been_played_starts_it_over(seed):
    env = make_native_atari_env("Breakout-v5", 2)
    env.seed(seed)
    first = play(env, 60)
    play(env, 20, seed=1)
    env.seed(seed)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, play(env, 60), strict=True))


def test_games_start_after_different_numbers_of_no_ops():
    env = make_native_atari_env("Pong-v5", 8, seed=0)
    env.reset()
    noops = [info["episode_frame_number"] - 8 for info in env.reset_infos]
    assert all(0 <= n < 30 for n in noops)
    assert len(set(noops)) > 2


def test_the_number_of_threads_changes_nothing():
    parallel, one_by_one = (play(make_native_atari_env("Breakout-v5", 3, 0, num_threads=n), 80) for n in (None, 1))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(parallel, one_by_one, strict=True))


def test_monitor_files_hold_the_games_of_the_infos(tmp_path):
    env = make_native_atari_env("Breakout-v5", 2, seed=0, monitor_dir=str(tmp_path))
    episodes = [info["episode"] for info in infos_of(play(env, 400)) if "episode" in info]
    env.close()
    results = load_results(str(tmp_path))
    assert len(list(tmp_path.glob("*.monitor.csv"))) == 2
    assert sorted(results["l"]) == sorted(episode["l"] for episode in episodes)
    assert results["r"].sum() == sum(episode["r"] for episode in episodes)


@pytest.mark.parametrize("train_natively", [True, False])
def test_an_agent_trained_on_one_plays_and_learns_on_the_other(tmp_path, train_natively):
    envs = [make_native_atari_env("Pong-v5", 2, 0), stock("Pong-v5", 2, 0)]
    trained_on, other = envs if train_natively else envs[::-1]
    PPO("CnnPolicy", trained_on, **PPO_KWARGS).learn(32).save(tmp_path / "agent")
    agent = PPO.load(tmp_path / "agent", env=other)
    # What `rl_zoo3.enjoy` plays on: no VecTransposeImage
    untransposed = other.venv if train_natively else other
    actions, _ = agent.predict(untransposed.reset())
    assert actions.shape == (2,)
    agent.learn(32)


def test_evaluation_gives_the_raw_scores_of_the_stock_stack():
    kwargs = {"env_kwargs": {"max_num_frames_per_episode": 800}, "wrapper_kwargs": NO_NOOPS}
    envs = both("SpaceInvaders-v5", n_envs=1, **kwargs)
    agent = PPO("CnnPolicy", envs[1], seed=0, **{**PPO_KWARGS, "batch_size": 8})
    expected, scores = (evaluate_policy(agent, env, 2, return_episode_rewards=True) for env in envs)
    assert scores == expected
    assert sum(scores[0]) > 0


def test_vec_monitor_is_told_that_there_is_a_monitor():
    with pytest.warns(UserWarning, match="already wrapped"):
        VecMonitor(make_native_atari_env("Pong-v5"))


def test_it_answers_what_sb3_and_rl_zoo_ask_an_environment():
    env = make_native_atari_env("Breakout-v5", 2, 0)
    env.reset()
    assert env.env_is_wrapped(Monitor) == env.env_is_wrapped(MaxAndSkipEnv) == [True, True]
    assert env.env_is_wrapped(EpisodicLifeEnv, indices=0) == [True]
    assert [spec.id for spec in env.get_attr("spec")] == ["Breakout-v5"] * 2
    assert env.render_mode == "rgb_array"
    assert env.get_attr("lives") == [5, 5]
    assert env.env_method("get_action_meanings", indices=1) == [["NOOP", "FIRE", "RIGHT", "LEFT"]]
    assert not env.has_attr("action_masks")
    env.set_attr("curriculum", 3, indices=1)
    assert env.get_attr("curriculum", indices=[1]) == [3]
    with pytest.raises(AttributeError, match="'ale'"):
        env.get_attr("ale")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_double_frame_skip(env)


def test_life_options_show_in_the_wrappers():
    env = make_native_atari_env("Pong-v5", wrapper_kwargs={"terminal_on_life_loss": False})
    assert env.env_is_wrapped(EpisodicLifeEnv) == [False]


@pytest.mark.parametrize("exact_pixels", [True, False])
def test_rendering_shows_the_screens(exact_pixels):
    env = make_native_atari_env("Pong-v5", 4, exact_pixels=exact_pixels)
    play(env, 3)
    image = env.render("rgb_array")
    assert image.shape == (2 * 210, 2 * 160, 3)
    assert image.std() > 10


@pytest.mark.parametrize("actions", [[0, 6], [0, -1], [0]])
def test_impossible_actions_get_an_error(actions):
    env = make_native_atari_env("Pong-v5", 2)
    env.reset()
    with pytest.raises(ValueError, match="Expected 2 actions from 0 to 5"):
        env.step(np.array(actions))


def test_a_step_under_way_can_be_left_for_a_reset_or_the_end():
    env = make_native_atari_env("Pong-v5", 2, seed=3)
    first = env.reset().copy()
    env.step_async(np.zeros(2, int))
    env.seed(3)
    assert np.array_equal(env.reset(), first)
    env.step_async(np.zeros(2, int))
    with pytest.raises(RuntimeError, match="not finished"):
        env.step_async(np.zeros(2, int))
    env.close()
    env.close()


def test_after_an_interrupt_a_reset_gives_no_stale_frames():
    def interrupt(*_):
        raise KeyboardInterrupt

    expected = play(make_native_atari_env("Breakout-v5", 2, seed=3), 30)
    env = make_native_atari_env("Breakout-v5", 2, seed=3)
    usual_handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        for n in range(4):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.02 + 0.0007 * n)
                play(env, 10_000)
            env.seed(3)
            played = play(env, 30)
            assert all(np.array_equal(a[0], b[0]) for a, b in zip(expected, played, strict=True))
    finally:
        signal.signal(signal.SIGALRM, usual_handler)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"env_id": "Pongg-v5"}, "Did you mean"),
        ({"env_id": "CartPole-v1"}, "not one of ale-py's Atari games"),
        ({"env_id": "ALE/Pong-v5"}, "use Pong-v5"),
        ({"env_id": "Pong-v5", "wrapper_kwargs": {"noop": 3}}, "did you mean 'noop_max'"),
        ({"env_id": "Backgammon-v5"}, "needs NOOP first"),
        ({"env_id": "Pong-v5", "n_envs": 0}, "n_envs=0 must be at least 1"),
        ({"env_id": "Pong-v5", "num_threads": 0}, "num_threads=0 must be at least 1"),
    ],
)
def test_mistakes_get_an_error_that_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_native_atari_env(**arguments)
