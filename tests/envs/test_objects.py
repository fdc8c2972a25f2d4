"""The objects of Atari games: the RAM says where the screen shows them, and observations are made of that."""

import pickle
import warnings

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv
from stable_baselines3.common.env_checker import check_env as check_sb3_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

import sb3_ext.envs  # noqa: F401  registers the ids
from sb3_ext.envs.object_games import OBJECT_GAMES, register_objects
from sb3_ext.vec_env.multicore import MulticoreVecEnv

IDS = register_objects()
ROMS = set(ale_py.roms.get_all_rom_ids())
pytestmark = pytest.mark.skipif(
    not {game.rom for game in OBJECT_GAMES.values()} <= ROMS, reason="ale-py has not the ROMs of these games"
)


def play(env, n_steps, seed=0, hold=3):
    """Random actions, each for some steps; yields after each step what it gave."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    for step in range(n_steps):
        if step % hold == 0:
            action = int(rng.integers(env.action_space.n))
        observation, reward, terminated, truncated, info = env.step(action)
        yield observation, reward, terminated, truncated, info
        if terminated or truncated:
            env.reset()


def features(env, observation):
    return dict(zip(env.unwrapped.feature_names, map(float, observation), strict=True))


# Colour, the part of the screen (top, bottom, left, right) where nothing else has it, and the size if nothing hides it
CARS = (
    *((167, 26, 26), (180, 231, 117), (105, 105, 15), (228, 111, 111), (24, 26, 167)),
    *((162, 98, 33), (84, 92, 214), (184, 50, 50), (135, 183, 84), (210, 210, 64)),
)
ON_SCREEN = {
    ("Pong", "player"): ((92, 186, 92), (34, 194, 130, 150), (4, 16)),
    ("Pong", "enemy"): ((213, 130, 74), (34, 194, 10, 30), (4, 16)),
    ("Pong", "ball"): ((236, 236, 236), (34, 194, 0, 160), (2, 4)),
    ("Breakout", "player"): ((200, 72, 72), (189, 193, 8, 152), (16, 4)),
    ("Breakout", "ball"): ((200, 72, 72), (93, 189, 8, 152), (2, 4)),
    ("Freeway", "player"): ((252, 252, 84), (106, 187, 44, 50), (None, 8)),
    **{("Freeway", f"car{i}"): (CARS[i], (24 + 16 * i, 40 + 16 * i, 8, 152), (8, None)) for i in range(10)},
    ("Boxing", "player"): ((214, 214, 214), (36, 178, 32, 128), (14, None)),
    ("Boxing", "enemy"): ((0, 0, 0), (36, 178, 32, 128), (14, None)),
    ("Tennis", "ball"): ((236, 236, 236), (18, 188, 8, 152), (2, 2)),
    ("Tennis", "shadow"): ((74, 74, 74), (18, 188, 8, 152), (2, 2)),
    ("SpaceInvaders", "player"): ((50, 132, 50), (185, 195, 0, 160), (7, 10)),
    ("SpaceInvaders", "saucer"): ((151, 25, 122), (0, 30, 0, 160), (7, None)),
}


def extent(screen, colour, part):
    """Left, top, width and height of what has the colour in that part of the screen."""
    top, bottom, left, right = part
    rows, columns = np.nonzero((screen[top:bottom, left:right] == colour).all(axis=2))
    if not len(rows):
        return None
    return left + columns.min(), top + rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1


def recorded(game, n_steps):
    env = gym.make(f"{game}-v5_objects", render_mode="rgb_array")
    steps = enumerate(play(env, n_steps))
    return [(env.unwrapped.positions(), env.render(), env.unwrapped.ale.getRAM()) for i, _ in steps if i % 3 == 0]


@pytest.fixture(scope="module")
def recordings():
    """What the RAM and the screen said at every third step, by game."""
    return {game: recorded(game, 900) for game in OBJECT_GAMES}


@pytest.mark.parametrize("game, name", ON_SCREEN)
def test_an_object_is_where_the_screen_shows_it(game, name, recordings):
    colour, part, size = ON_SCREEN[game, name]
    n_compared = 0
    for positions, screen, _ in recordings[game]:
        found = extent(screen, colour, part)
        if found is None or any(full not in (None, shown) for full, shown in zip(size, found[2:], strict=True)):
            continue  # hidden, or together with something else
        left, top, width, height = found
        centre = left + (width - 1) / 2, top + (height - 1) / 2
        assert name in positions
        np.testing.assert_allclose(positions[name], centre, atol=3)
        n_compared += 1
    assert n_compared > 15


@pytest.mark.parametrize(
    "game, name", [("Pong", "ball"), ("Pong", "enemy"), ("Tennis", "ball"), ("SpaceInvaders", "saucer")]
)
def test_an_object_that_is_not_there_is_not_shown(game, name, recordings):
    colour, part, _ = ON_SCREEN[game, name]
    absent = [screen for positions, screen, _ in recordings[game] if name not in positions]
    assert len(absent) > 8
    assert all(extent(screen, colour, part) is None for screen in absent)


@pytest.mark.parametrize("name, colour", [("player", (240, 128, 128)), ("enemy", (117, 128, 240))])
def test_tennis_players_are_told_apart_on_both_sides(name, colour, recordings):
    for side in (0, 1):
        frames = [(positions, screen) for positions, screen, ram in recordings["Tennis"] if ram[80] == side]
        coloured = np.array([(screen[18:188] == colour).all(axis=2) for _, screen in frames])
        figures = coloured & (coloured.mean(axis=0) < 0.5)  # the lines of a half have its player's colour
        errors = [
            np.abs(np.array(positions[name]) - np.median(np.argwhere(figure), axis=0)[::-1] - (0, 18))
            for (positions, _), figure in zip(frames, figures, strict=True)
            if figure.sum() > 30
        ]
        assert len(errors) > 30
        assert np.percentile(errors, 95, axis=0).max() < 10  # a racket's length


def test_bricks_are_there_as_long_as_the_screen_shows_them():
    env = gym.make("Breakout-v5_objects", render_mode="rgb_array")
    for observation, *_ in play(env, 300, hold=2):
        bricks = np.array([value for name, value in features(env, observation).items() if name.startswith("brick")])
        blocks = env.render()[57:93, 8:152].reshape(6, 6, 18, 8, 3)  # rows, pixels, columns, pixels
        shown = blocks.any(axis=4).all(axis=(1, 3))
        np.testing.assert_array_equal(bricks.reshape(6, 18), shown)
    assert not shown.all()


def test_invaders_and_their_bombs_are_where_the_screen_shows_them():
    env = gym.make("SpaceInvaders-v5_objects", render_mode="rgb_array", frameskip=1)
    before, n_shots = np.zeros((210, 160), dtype=bool), 0
    for i, _ in enumerate(play(env, 500, hold=12)):
        positions, screen = env.unwrapped.positions(), env.render()
        if i % 10 == 0:
            aliens = extent(screen, (134, 134, 29), (25, 185, 0, 160))
            np.testing.assert_allclose(positions["invaders"], aliens[:2], atol=2)
        shots = screen[:, :, 2] == 142  # nothing else has as much blue
        for x, y in (positions[name] for name in ("missile", "bomb0", "bomb1") if name in positions):
            if 40 < y < 150:
                n_shots += 1
                # Bombs are drawn in turns
                assert (shots | before)[int(y) - 8 : int(y) + 9, int(x) - 2 : int(x) + 3].any()
        before = shots
    assert n_shots > 100


@pytest.mark.parametrize("env_id", [env_id for env_id in IDS if env_id == IDS[1] or "Deterministic" not in env_id])
def test_the_checkers_of_gymnasium_and_sb3_find_nothing(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_gymnasium_env(gym.make(env_id, previous_action=True).unwrapped, skip_render_check=True)
        check_sb3_env(gym.make(env_id))


@pytest.mark.parametrize("env_id, sticky", [("Pong-v5_objects", 0.25), ("PongDeterministic-v5_objects", 0.0)])
def test_the_ids_have_a_time_limit_a_threshold_and_sticky_actions_or_none(env_id, sticky):
    env = gym.make(env_id)
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == sticky
    assert env.spec.max_episode_steps == 27_000
    assert env.spec.reward_threshold == (18 if sticky else 20)
    assert not ExperimentManager.is_atari(env_id)  # or RL Zoo would want its pixels


def test_the_game_is_that_of_ale_py():
    ours = gym.make("PongDeterministic-v5_objects", noop_max=0)
    theirs = gym.make("ALE/Pong-v5", obs_type="ram", repeat_action_probability=0.0)
    rewards = 0
    for step, reference in zip(play(ours, 400, seed=3), play(theirs, 400, seed=3), strict=True):
        np.testing.assert_array_equal(ours.unwrapped.ale.getRAM(), reference[0])
        assert step[1:] == reference[1:]
        rewards += step[1]
    assert rewards < 0


@pytest.mark.parametrize("env_id", ["Pong-v5_objects", "BreakoutDeterministic-v5_objects"])
def test_a_seed_reproduces_and_another_one_does_not(env_id):
    def observations(seed):
        env = gym.make(env_id)
        env.reset(seed=seed)
        return np.array([env.step(i // 7 % env.action_space.n)[0] for i in range(80)])

    np.testing.assert_array_equal(observations(1), observations(1))
    assert not np.array_equal(observations(1), observations(2))


def test_a_reset_without_seed_goes_on_with_the_random_numbers():
    env = gym.make("PongDeterministic-v5_objects")
    starts = [env.reset(seed=5)[1], *(env.reset()[1] for _ in range(5))]
    again = [env.reset(seed=5)[1], *(env.reset()[1] for _ in range(5))]
    frames = [info["episode_frame_number"] for info in starts]
    assert frames == [info["episode_frame_number"] for info in again]
    assert len(set(frames)) > 1
    assert max(frames) - min(frames) <= 30


def test_the_last_action_is_in_the_observation():
    env = gym.make("Pong-v5_objects", previous_action=True)
    n_actions = env.action_space.n
    assert not env.reset(seed=0)[0][-n_actions:].any()
    for action in (2, 5, 0):
        np.testing.assert_array_equal(env.step(action)[0][-n_actions:], np.eye(n_actions)[action])
    assert env.unwrapped.feature_names[-n_actions:][2] == "last action RIGHT"


def test_relative_places_can_be_left_out():
    with_them, without = (gym.make("Pong-v5_objects", relative=flag).unwrapped for flag in (True, False))
    assert set(with_them.feature_names) - set(without.feature_names) == {"ball from player.x", "ball from player.y"}
    assert without.observation_space.shape == (15,)


@pytest.mark.parametrize("env_id", ["Pong-v5_objects", "Breakout-v5_objects"])
def test_the_ball_crosses_the_paddles_line_where_it_was_said(env_id):
    env = gym.make(env_id, crossing=True, repeat_action_probability=0.0)
    names = list(env.unwrapped.feature_names)
    first = next(index for index, name in enumerate(names) if "will cross" in name)
    along = 1 if "Pong" in env_id else 0
    flights = [[]]
    for observation, *_ in play(env, 3000, seed=1):
        if observation[first + 2]:
            place = env.unwrapped.positions()["player"][along]
            flights[-1].append(place + 30 * np.arctanh(np.clip(observation[first + 1], -0.99, 0.99)))
        elif flights[-1]:
            flights.append([])
    long = [flight for flight in flights if len(flight) >= 5]
    assert len(long) >= 10
    # Where the ball bounces between two steps, its way seems shorter for one of them
    assert np.median([np.median(np.abs(np.array(flight) - flight[-1])) for flight in long]) < 2


@pytest.mark.parametrize("game", ["Freeway", "Tennis"])
def test_a_game_without_such_a_line_says_so(game):
    with pytest.raises(ValueError, match=f"{game} has no line that a ball crosses. These games have one: Pong, Break"):
        gym.make(f"{game}-v5_objects", crossing=True)


def test_the_fire_button_is_pressed_for_each_ball_where_the_game_waits_for_it():
    def ball_is_there(env):
        env.reset(seed=0)
        return [features(env, env.step(0)[0])["ball.there"] for _ in range(150)]

    seen = ball_is_there(gym.make("Breakout-v5_objects"))
    assert seen[0] == 1.0
    assert 1.0 in seen[seen.index(0.0) :]  # lost, and there again
    assert not any(ball_is_there(gym.make("Breakout-v5_objects", fire_reset=False)))


def test_velocities_follow_the_frame_skip():
    def velocities(skip):
        env = gym.make("PongDeterministic-v5_objects", frameskip=skip, noop_max=0)
        steps = [features(env, step[0]) for step in play(env, 240 // skip, hold=1000)]
        return [step["ball.vx"] for step in steps if step["ball.vx"]]

    assert np.median(np.abs(velocities(2))) == pytest.approx(np.median(np.abs(velocities(4))))


def test_the_game_is_drawn():
    env = gym.make("Pong-v5_objects", render_mode="rgb_array")
    env.reset(seed=0)
    np.testing.assert_array_equal(env.render(), env.unwrapped.ale.getScreenRGB())
    assert env.metadata["render_fps"] == 15


def test_a_pickled_environment_plays_the_same_game():
    env = gym.make("Breakout-v5_objects", previous_action=True, noop_max=7).unwrapped
    copy = pickle.loads(pickle.dumps(env))
    for one, other in zip(play(env, 40), play(copy, 40), strict=True):
        np.testing.assert_equal(one, other)


def test_each_vec_env_gives_the_same_and_stacks_frames(closing):
    kwargs = {"n_envs": 2, "seed": 3, "env_kwargs": {"previous_action": True}}
    kinds = {DummyVecEnv: {}, SubprocVecEnv: {"start_method": "fork"}, MulticoreVecEnv: {"start_method": "fork"}}
    vec_envs = [
        closing(VecFrameStack(make_vec_env("Pong-v5_objects", vec_env_cls=kind, vec_env_kwargs=options, **kwargs), 3))
        for kind, options in kinds.items()
    ]
    observations = [vec_env.reset() for vec_env in vec_envs]
    for step in range(25):
        assert observations[0].shape == (2, 3 * 23)
        for other in observations[1:]:
            np.testing.assert_array_equal(observations[0], other)
        observations = [vec_env.step(np.array([step % 6, 2]))[0] for vec_env in vec_envs]


def test_sb3s_wrapper_for_lives_works():
    env = EpisodicLifeEnv(gym.make("Breakout-v5_objects"))
    env.reset(seed=0)
    lives = next(info["lives"] for *_, terminated, _, info in iter(lambda: env.step(0), None) if terminated)
    assert lives == 4


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"previous_actions": True}, "previous_action"),
        ({"game": "Pongg"}, "did you mean 'Pong'"),
        ({"noop_max": -1}, "noop_max=-1 must be a whole number"),
        ({"repeat_action_probability": 25}, "repeat_action_probability=25 must be between 0 and 1"),
        ({"fire_reset": "no"}, "fire_reset='no' must be True or False"),
    ],
)
def test_a_wrong_parameter_gets_a_clear_error(kwargs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        gym.make("Pong-v5_objects", **kwargs)
