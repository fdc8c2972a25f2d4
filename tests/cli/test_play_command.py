"""``sb3-ext play``: who plays what and where, with real keys in a pseudo-terminal."""

import shutil
import termios

import numpy as np
import pytest
from report_folders import zoo_run
from terminal_session import TerminalSession

from sb3_ext.cli import main
from sb3_ext.runs.play.episode_table import EpisodeTable

TRAIN = "train --env CartPole-v1 -n 256 --seed 1 --eval-freq 128 --verbose 0 --num-threads 1"
HYPERPARAMS = ["-params", "n_envs:2", "n_steps:64", "batch_size:64", "ext:dict(report=False)"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("play") / "logs"
    main([*TRAIN.split(), "-f", str(logs), *HYPERPARAMS])
    return logs


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")


@pytest.fixture
def table(tmp_path):
    """The file for the table, and what is in it."""
    path = tmp_path / "played.csv"
    return path, lambda: EpisodeTable.from_csv(path)


def test_a_person_plays_with_the_keys_of_a_terminal(table):
    path, read = table
    words = ["FrozenLake-v1", "--human", "--env-kwargs", "is_slippery:false", "-o", str(path)]
    session = TerminalSession("play", *words)
    session.wait_for("Keys: left or a: left, down or s: down, right or d: right, up or w: up, q: quit")
    session.wait_for("FHFH")  # the map, as the environment draws it
    before = termios.tcgetattr(session.terminal)
    session.press("down", "s", "right", "x")
    session.wait_for("step 3  action right")
    session.press("d", "down", "right")
    session.wait_for("score 1  step 6  action right  the episode is over")
    assert session.exit_code() == 0 and f"You: score 1 in 6 steps, saved: {path}" in session.output
    assert read()["action_label"].tolist() == ["down", "down", "right", "right", "down", "right"]
    assert read()["obs"].tolist() == [0, 4, 8, 9, 10, 14] and read().score == 1
    assert not before[3] & termios.ECHO


@pytest.mark.parametrize("key", ["q", "escape", "\x03"], ids=["q", "Esc", "Ctrl-C"])
def test_the_terminal_is_as_before_when_the_person_ends_the_game(table, key):
    session = TerminalSession("play", "CartPole-v1", "--human", "-o", str(table[0]))
    session.wait_for("Keys: ")
    session.wait_for("angular velocity")
    session.press("left")
    session.wait_for("step 1")
    session.press(key)
    session.wait_for(r"\x1b\[\?25h\x1b\[\?1049l")  # the cursor and the screen are back
    session.wait_for("saved: ")
    assert termios.tcgetattr(session.terminal)[3] & termios.ECHO
    assert session.exit_code() == 0 and len(table[1]()) == 1


def test_other_keys_can_be_chosen(table):
    path, read = table
    session = TerminalSession("play", "CartPole-v1", "--human", "--keys", "j=left", "k=right", "-o", str(path))
    session.wait_for("Keys: j: left, k: right")
    session.wait_for("step 0")
    session.press("k", "a", "j", "k", "escape")
    assert session.exit_code() == 0
    assert read()["action"].tolist() == [1, 0, 1]


def test_without_waiting_a_key_counts_for_a_moment_and_the_game_goes_on(table):
    path, read = table
    session = TerminalSession("play", "Pendulum-v1", "--human", "--fps", "20", "-o", str(path))
    session.wait_for("Keys: left or a: torque -, right or d: torque \\+")
    session.wait_for("step 3")
    session.press("right")
    session.wait_for(r"action \+2.00")
    session.wait_for(r"action \+0.00")
    session.press("q")
    assert session.exit_code() == 0
    torques = read()["action_0"]
    assert torques[0] == 0 and (torques == 2).sum() == 5  # a quarter of a second


def test_a_key_takes_over_from_the_agent_and_the_agent_continues(logs, table):
    path, read = table
    run = ["CartPole-v1_1", "-f", str(logs), "--fps", "5", "--stochastic"]
    session = TerminalSession("play", *run, "-o", str(path))
    session.wait_for("Playing .*best_model.zip")
    session.wait_for(r"agent: score \d+  step \d+  action")
    session.press("left")
    session.wait_for(r"you: score \d+  step \d+  action left  value")
    session.wait_for(r"agent: score|the episode is over")
    session.press("q")
    assert session.exit_code() == 0
    is_yours = np.isnan(read()["log_prob"])
    assert 0 < is_yours.sum() < len(is_yours) and set(read()["action"][is_yours]) == {0}
    assert np.isfinite(read()["value"]).all()


def test_you_and_the_agent_play_the_same_seed(logs, tmp_path):
    session = TerminalSession(
        "play", "CartPole-v1_1", "-f", str(logs), "--versus", "--seed", "3", "-o", f"{tmp_path}/x.csv"
    )
    session.wait_for("step 0")
    session.press(*["left"] * 30)
    session.wait_for("saved: .*x-human-seed-3.csv")
    session.wait_for("saved: .*x-agent-seed-3.csv")
    session.wait_for(r"You \d+, agent \d+: (The agent wins|You win|A draw)\.")
    assert session.exit_code() == 0
    yours, theirs = (EpisodeTable.from_csv(tmp_path / f"x-{player}-seed-3.csv") for player in ("human", "agent"))
    assert [yours[f"obs_{index}"][0] for index in range(4)] == [theirs[f"obs_{index}"][0] for index in range(4)]
    assert set(yours["action"]) == {0} and yours["terminated"][-1]


def test_without_a_terminal_an_agent_plays_on_its_own(logs, capsys):
    for _ in range(2):
        assert main(["play", "CartPole-v1_1", "-f", str(logs)]) == 0
    said = capsys.readouterr().out
    played = logs / "ppo_ext/CartPole-v1_1/played"
    assert "Agent: score " in said and "\x1b" not in said
    tables = [EpisodeTable.from_csv(played / f"CartPole-v1-agent-seed-0{number}.csv") for number in ("", "_1")]
    assert tables[0]["obs_0"].tolist() == tables[1]["obs_0"].tolist() and tables[0]["terminated"][-1]


def test_random_actions_can_be_watched_for_several_episodes(tmp_path, capsys):
    words = ["--random", "--episodes", "2", "--seed", "4", "-o", str(tmp_path / "a.csv")]
    assert main(["play", "CartPole-v1", *words]) == 0
    assert capsys.readouterr().out.count("Random actions: score ") == 2
    first, second = (EpisodeTable.from_csv(tmp_path / f"a-random-seed-{seed}.csv") for seed in (4, 5))
    assert set(first["action"]) == {0, 1} and first["obs_0"][0] != second["obs_0"][0]


def test_by_default_tables_of_environments_are_in_the_log_folder(tmp_path):
    assert main(["play", "FrozenLake-v1", "--random", "-f", str(tmp_path)]) == 0
    assert (tmp_path / "played" / "FrozenLake-v1-random-seed-0.csv").is_file()


def test_in_a_window_keys_are_events_and_no_terminal_is_needed(table, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    pygame.display.init()
    for name in ("down", "right", "q"):
        for kind in (pygame.KEYDOWN, pygame.KEYUP):
            pygame.event.post(pygame.event.Event(kind, key=pygame.key.key_code(name)))
    path, read = table
    words = ["--human", "--window", "--env-kwargs", "is_slippery:false", "-o", str(path)]
    assert main(["play", "FrozenLake-v1", *words]) == 0
    assert read()["action_label"].tolist() == ["down", "right"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["CartPole-v1"], "CartPole-v1 is an environment, without an agent: choose --human or --random."),
        (["CartPole-v1", "--human"], "you need a keyboard: the input is not a terminal"),
        (["CartPol-v1", "--human"], "did you mean 'CartPole-v1'?"),
        (["CartPole-v1", "--random", "-o", "a.txt"], "must end with .csv"),
        (["CartPole-v1", "--random", "--env-kwargs", "gravity"], "expected KEY:VALUE"),
        (["CartPole-v1", "--random", "--env-kwargs", "gravty:1"], "CartPole-v1 can't be made: "),
        (["CartPole-v1_1", "--random", "--env-kwargs", "a:1"], "a run has its own"),
        (["CartPole-v1_1@7"], "It has: @final, @best"),
        (["CartPole-v1_1", "--keys", "j=lef"], "there is no action 'lef'"),
    ],
)
def test_a_mistake_gets_a_short_answer(logs, words, answer, capsys):
    assert main(["play", *words, "-f", str(logs)]) == 2
    said = capsys.readouterr().err
    assert answer in said and "Traceback" not in said


def test_a_run_without_a_model_says_so(tmp_path, capsys):
    assert main(["play", str(zoo_run(tmp_path / "run", algo="ppo"))]) == 2
    assert "It has no model at all" in capsys.readouterr().err


ENVS = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Blind(CartPoleEnv):
    metadata = {"render_modes": []}

    def __init__(self, render_mode=None):
        super().__init__()

gym.register("Unseen-v0", Blind, max_episode_steps=20)
"""


def test_an_environment_without_pictures_is_played_as_text_only(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "unseen_envs.py").write_text(ENVS)
    words = ["play", "Unseen-v0", "--gym-packages", "unseen_envs", "--random", "-o", str(tmp_path / "a.csv")]
    assert main([*words, "--window"]) == 2
    assert "Unseen-v0 has no pictures for a window (it has: none). As text: --text" in capsys.readouterr().err
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(words) == 0 and (tmp_path / "a.csv").is_file()


def test_a_run_folder_beats_an_environment_of_the_same_name(logs, tmp_path, monkeypatch, capsys):
    shutil.copytree(logs / "ppo_ext/CartPole-v1_1", tmp_path / "CartPole-v1")
    monkeypatch.chdir(tmp_path)
    assert main(["play", "CartPole-v1"]) == 0
    assert "Playing CartPole-v1/best_model.zip" in capsys.readouterr().out
