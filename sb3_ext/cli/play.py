"""``sb3-ext play RUN|ENV``: watch an agent or random actions, or play yourself, in a window or as text."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sb3_ext.cli.display import has_display
from sb3_ext.cli.run_argument import add_log_folder
from sb3_ext.cli.whole_number import positive_number, seed_number, whole_number
from sb3_ext.common.clean_text import say
from sb3_ext.common.names import suggestion
from sb3_ext.common.usage_error import UsageError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sb3_ext.runs.play.episode_table import EpisodeTable
    from sb3_ext.runs.play.keys import KeyMap
    from sb3_ext.runs.play.terminal import Terminal
    from sb3_ext.runs.play.window import Window

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext play @last                                    watch the agent; press a key to take over
  sb3-ext play @last --human                            play yourself
  sb3-ext play @last --versus                           first you, then the agent, with the same seed
  sb3-ext play FrozenLake-v1 --human --text             an environment without an agent, in the terminal
  sb3-ext play LunarLander-v3 --random --episodes 3
  sb3-ext play CartPole-v1 --human --keys j=left k=right

keys, which are also shown at the start; --keys changes them:
  arrows or w a s d     directions, engines, steering       space   fire
  a letter              of the name of another action       1 2 3   actions without names
  left right, down up, j l, k i, f h, g t                   numbers of a continuous action, lower and raise
  Esc or q              end the game; what was played is saved
While you watch an agent, a key gives you control. A second after the last one, the agent plays on.

A model contains a pickle: playing it runs code from whoever made it. Only play runs from people you trust.
"""
_NAMES = {"human": "You", "agent": "Agent", "random": "Random actions"}
#: Steps per second up to which a game waits for a person
_TURNS = 5.0
#: Seconds for which the end of an episode is shown
_LAST_PICTURE = 1.0
_MAX_STEPS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sb3-ext play RUN[@MODEL]|ENV [options]"
    parser.add_argument("run", metavar="RUN|ENV", help="a run, as in other commands, or the id of an environment")
    add_log_folder(parser)
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--human", action="store_true", help="play yourself")
    who.add_argument("--random", action="store_true", help="watch random actions")
    who.add_argument("--versus", action="store_true", help="play yourself, then watch the agent with the same seed")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--window", action="store_true", help="in a window (default, if there is a display)")
    where.add_argument("--text", action="store_true", help="as text in the terminal")
    parser.add_argument(
        "--keys", nargs="+", default=[], metavar="KEY=ACTION", help="such as a=left w+space=3 j=torque:-1"
    )
    parser.add_argument(
        "--fps", type=positive_number, help="steps per second (default: real time; slow games and text wait for a key)"
    )
    parser.add_argument("--episodes", type=whole_number, default=1, help="default: 1")
    parser.add_argument(
        "--seed", type=seed_number, default=0, help="of the first episode; the next one has the next (default: 0)"
    )
    parser.add_argument("-o", "--output", metavar="FILE.csv", help="table of the steps (default: in a folder played/)")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--stochastic", action="store_true", help="the agent samples actions as in training")
    choice.add_argument("--deterministic", action="store_true", help="the agent takes the most likely actions")
    parser.add_argument(
        "--env-kwargs", nargs="+", default=[], metavar="KEY:VALUE", help="arguments of ENV, such as is_slippery:false"
    )
    parser.add_argument("--gym-packages", nargs="+", default=[], metavar="PACKAGE", help="import these too")


class _Opened(NamedTuple):
    """
    :param folder: for tables
    :param model: ``None`` for an environment without an agent
    """

    name: str
    env: "VecEnv"
    folder: Path
    model: "BaseAlgorithm | None" = None
    deterministic: bool = True


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.play.frames import CantRender

    if args.output is not None and Path(args.output).suffix != ".csv":
        raise UsageError(f"-o {args.output}: the name of a table must end with .csv.")
    players = ["human", "agent"] if args.versus else ["human" if args.human else "random" if args.random else "agent"]
    env_id = _env_id(args)
    if env_id is not None and "agent" in players:
        raise UsageError(f"{env_id} is an environment, without an agent: choose --human or --random.")
    messages: list[str] = []
    try:
        messages.extend(_play_all(args, env_id, players))
    except CantRender as error:
        raise UsageError(f"{args.run} can't be shown in a window: {error} As text: --text") from None
    finally:
        # While the game is on the screen, there is no place for them
        for message in messages:
            say(message)
    return 0


def _play_all(args: argparse.Namespace, env_id: str | None, players: list[str]) -> Iterator[str]:
    """Says what was played."""
    from sb3_ext.runs.play.frames import first_env, real_time

    opened, is_window = _open_run(args, players) if env_id is None else _open_env(args, env_id, players)
    with closing(opened.env):
        keys = None if args.random else _keys(opened.env, args.keys)
        if keys is not None and (is_window or sys.stdin.isatty()):
            say(f"Keys: {keys.describe()}, q: quit")
        fps = args.fps or real_time(first_env(opened.env))
        waits = args.fps is None and (fps <= _TURNS or not is_window)
        with _screen(opened, keys, fps, is_window) as screen:
            for seed in range(args.seed, args.seed + args.episodes):
                scores = []
                for player in players:
                    table = _play(opened, player, seed, (screen, keys, fps, waits))
                    if table is None:
                        yield "Ended before the first step."
                        return
                    path = _path(args, opened, player, seed)
                    table.to_csv(path)
                    scores.append(table.score)
                    steps = f"{len(table):,} step{'s' * (len(table) != 1)}"
                    yield f"{_NAMES[player]}: score {table.score:,.6g} in {steps}, saved: {path}"
                    if not (table["terminated"][-1] or table["truncated"][-1]):
                        return  # the person has ended it
                    time.sleep(_LAST_PICTURE if is_window or sys.stdout.isatty() else 0)
                if args.versus:
                    yield _verdict(*scores)


def _play(opened: _Opened, player: str, seed: int, settings: tuple[Any, ...]) -> "EpisodeTable | None":
    from sb3_ext.runs.play.episode_table import Stopped, play_episode
    from sb3_ext.runs.play.game import Game
    from sb3_ext.runs.play.policy_probe import PolicyProbe

    screen, keys, fps, waits = settings
    agent = None
    if player == "agent":
        assert opened.model is not None
        agent = PolicyProbe(opened.model, opened.env.num_envs, opened.deterministic)
    opened.env.action_space.seed(seed)
    game = Game(opened.env, screen, keys, agent, player == "random", fps, waits)
    try:
        return play_episode(game, opened.env, seed=seed, max_steps=_MAX_STEPS, watch=game.watch)
    except Stopped:
        return None


def _env_id(args: argparse.Namespace) -> str | None:
    """The environment, if one is named and not a run."""
    import gymnasium as gym

    import sb3_ext.envs  # noqa: F401  registers ours
    from sb3_ext.zoo.env_catalogue import import_packages

    for problem in import_packages(args.gym_packages):
        say(problem)
    return args.run if args.run in gym.registry and not Path(args.run).is_dir() else None


def _open_env(args: argparse.Namespace, env_id: str, players: list[str]) -> tuple[_Opened, bool]:
    import gymnasium as gym
    import yaml
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    given = {}
    for word in args.env_kwargs:
        name, colon, value = word.partition(":")
        if not colon:
            raise UsageError(f"--env-kwargs {word}: expected KEY:VALUE, such as is_slippery:false.")
        given[name] = yaml.safe_load(value)
    mode = _render_mode(args, env_id, players)
    try:
        env = gym.make(env_id, render_mode=mode, **given)
    except (gym.error.Error, ImportError, TypeError, ValueError) as error:
        raise UsageError(f"{env_id} can't be made: {error}") from error
    vec_env = DummyVecEnv([lambda: Monitor(env)])
    return _Opened(env_id, vec_env, Path(args.log_folder, "played")), mode == "rgb_array"


def _open_run(args: argparse.Namespace, players: list[str]) -> tuple[_Opened, bool]:
    from sb3_ext.runs.agents.choose import choose_model, describe_model
    from sb3_ext.runs.find_run import split_checkpoint
    from sb3_ext.runs.record import read_record
    from sb3_ext.zoo.load_run import check_is_zoo_run, load_as_trained

    if args.env_kwargs:
        raise UsageError("--env-kwargs are for an environment; a run has its own.")
    run_name, model_name = split_checkpoint(args.run)
    record = read_record(_find_run(run_name, args.log_folder))
    check_is_zoo_run(record)
    chosen = choose_model(record, model_name)
    say(f"Playing {describe_model(chosen.path)}")
    env_id = str(record.env_id)
    mode = _render_mode(args, env_id, players)
    loaded = load_as_trained(record, chosen, args.seed, mode)
    deterministic = args.deterministic or (loaded.deterministic and not args.stochastic)
    opened = _Opened(env_id, loaded.env, record.folder / "played", loaded.model, deterministic)
    return opened, mode == "rgb_array"


def _find_run(name: str, log_folder: str) -> Path:
    import gymnasium as gym

    from sb3_ext.runs.find_run import find_run

    try:
        return find_run(name, log_folder)
    except UsageError as error:
        raise UsageError(f"{error}\nNor is it an environment{suggestion(name, gym.registry)}") from None


def _render_mode(args: argparse.Namespace, env_id: str, players: list[str]) -> str | None:
    """For a window, if there is a display; or for text, which some environments draw themselves."""
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    try:
        entry_point = gym.spec(env_id).entry_point
        creator: Any = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        modes = creator.metadata["render_modes"]
    # A function, or a package that is not there: what is wrong is said when the environment is made
    except Exception:
        modes = ["rgb_array"]
    if args.window and "rgb_array" not in modes:
        raise UsageError(
            f"{env_id} has no pictures for a window (it has: {', '.join(modes) or 'none'}). As text: --text"
        )
    if args.window or (not args.text and has_display() and "rgb_array" in modes):
        return "rgb_array"
    if "human" in players and not sys.stdin.isatty():
        raise UsageError("To play yourself, you need a keyboard: the input is not a terminal, and there is no window.")
    return "ansi" if "ansi" in modes else None


def _keys(env: "VecEnv", given: list[str]) -> "KeyMap":
    from sb3_ext.runs.play.keys import make_key_map
    from sb3_ext.runs.play.labels import action_labels, component_labels

    return make_key_map(env.action_space, action_labels(env), component_labels(env), given)


def _screen(opened: _Opened, keys: "KeyMap | None", fps: float, is_window: bool) -> "Terminal | Window":
    if is_window:
        from sb3_ext.runs.play.window import Window

        return Window(opened.env, keys, fps, opened.name)
    from sb3_ext.runs.play.terminal import Terminal

    return Terminal(opened.env, keys, fps)


def _path(args: argparse.Namespace, opened: _Opened, player: str, seed: int) -> Path:
    if args.output is not None:
        path = Path(args.output)
        is_one = args.episodes == 1 and not args.versus
        return path if is_one else path.with_stem(f"{path.stem}-{player}-seed-{seed}")
    name = f"{opened.name.replace('/', '-')}-{player}-seed-{seed}"
    names = (opened.folder / f"{name}{f'_{number}' if number else ''}.csv" for number in count())
    return next(path for path in names if not path.exists())


def _verdict(yours: float, of_agent: float) -> str:
    winner = "A draw." if yours == of_agent else "You win." if yours > of_agent else "The agent wins."
    return f"You {yours:,.6g}, agent {of_agent:,.6g}: {winner}"
