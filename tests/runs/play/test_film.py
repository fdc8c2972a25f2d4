"""Films: what is in them, how long they are, that every player knows their format, and that none is half written."""

import cv2
import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
from filmed_env import make_agent

from sb3_ext.runs.play.film import Clip, Film, film
from sb3_ext.runs.play.frames import CantRender
from sb3_ext.runs.play.overlay import Overlay, OverlayStyle

STYLE = OverlayStyle(fields=("score", "step", "action"), title_seconds=0.25, hold_seconds=0.25)
#: Each picture is shown three times, which makes 24 per second
FPS, REPEATS = 8, 3


def job(*agents, style=STYLE, **settings):
    """Of one agent, or of several that were trained for 100, 200, … steps."""
    clips = [Clip(lambda agent=agent: agent, 100 * number) for number, agent in enumerate(agents, start=1)]
    return Film("Fading", ("ppo",), "Score 10", clips, style=style, **settings)


def read(path):
    """What the file says about itself, and its pictures."""
    reader = imageio_ffmpeg.read_frames(str(path))
    facts = next(reader)
    width, height = facts["size"]
    return facts, [np.frombuffer(picture, np.uint8).reshape(height, width, 3) for picture in reader]


def red_of(picture):
    """In the middle of the picture of the environment, which is left of the numbers."""
    return int(np.median(picture[500:580, 600:700, 0]))


def is_like(picture, expected):
    """But for compression, which changes edges; a single other digit changes areas."""
    return cv2.blur(cv2.absdiff(picture, expected), (7, 7)).max() < 50


@pytest.fixture(scope="module")
def short_film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    seconds = film(job(make_agent(length=3)), path)
    return seconds, *read(path)


def test_players_know_the_format(short_film):
    seconds, facts, pictures = short_film
    assert facts["codec"] == "h264" and facts["pix_fmt"].startswith("yuv420p(tv, bt709")
    assert facts["size"] == (1920, 1080) and facts["fps"] == 24
    assert facts["duration"] == pytest.approx(seconds, abs=0.05) == pytest.approx(len(pictures) / 24, abs=0.05)


def test_the_index_comes_first_so_that_browsers_start_at_once(tmp_path):
    film(job(make_agent(length=1)), tmp_path / "film.mp4")
    content = (tmp_path / "film.mp4").read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat")


def test_the_title_is_followed_by_every_step_and_the_last_picture_stays(short_film):
    _, _, pictures = short_film
    shown = pictures[::REPEATS]
    # 0.25 s of title, four pictures of three steps, of which the last is shown for 0.25 s
    assert len(shown) == 2 + 3 + 2 and len(pictures) == REPEATS * len(shown)
    expected_title = Overlay(STYLE).title("Fading", ("ppo",), "Score 10")
    assert is_like(shown[1], expected_title)
    np.testing.assert_allclose([red_of(picture) for picture in shown[2:]], [250, 225, 200, 175, 175], atol=4)


def test_the_numbers_belong_to_the_picture(short_film):
    _, _, pictures = short_film
    agent = make_agent()
    action = ["STAY", "GO"][int(agent.model.predict(np.ones(1, np.float32), deterministic=True)[0])]
    overlay = Overlay(STYLE)
    raw = np.zeros((30, 40, 3), np.uint8)
    raw[..., 0] = 225
    shown = pictures[REPEATS * 3]
    assert is_like(shown, overlay.frame(raw, ("Fading",), {"score": "2", "step": "1", "action": action}))
    for wrong in ({"score": "4"}, {"step": "2"}, {"action": "GO" if action == "STAY" else "STAY"}):
        texts = {"score": "2", "step": "1", "action": action, **wrong}
        assert not is_like(shown, overlay.frame(raw, ("Fading",), texts)), wrong


class LosesLife(gym.Wrapper):
    """Tells the agent after the second step that the episode is over, as Atari's wrapper does at a lost life."""

    _is_over = True

    def reset(self, **kwargs):
        if self._is_over:
            return self.env.reset(**kwargs)
        return np.full(1, 2, np.float32), {}

    def step(self, action):
        observation, reward, self._is_over, truncated, info = self.env.step(action)
        return observation, reward, self._is_over or observation[0] == 2, truncated, info


def test_a_lost_life_is_not_the_end_and_has_one_picture(tmp_path):
    film(job(make_agent(length=4, wrap=LosesLife)), tmp_path / "film.mp4")
    _, pictures = read(tmp_path / "film.mp4")
    reds = [red_of(picture) for picture in pictures[2 * REPEATS :: REPEATS]]
    np.testing.assert_allclose(reds, [250, 225, 200, 175, 150, 150], atol=4)


def test_it_ends_after_the_seconds_or_the_episodes(tmp_path):
    quick = OverlayStyle(title_seconds=0, hold_seconds=0)
    assert film(job(make_agent(length=99), seconds=0.5, style=quick), tmp_path / "seconds.mp4") == 0.5
    assert film(job(make_agent(length=1), episodes=3, style=quick), tmp_path / "episodes.mp4") == 3 * 2 / FPS
    assert film(job(make_agent(length=99), seconds=0.125, fps=48, style=quick), tmp_path / "fps.mp4") == 0.125
    assert read(tmp_path / "fps.mp4")[0]["fps"] == 48


def test_a_montage_shows_one_agent_after_the_other_and_how_far_training_was(tmp_path):
    agents = [make_agent(length=length) for length in (1, 9)]
    accent = OverlayStyle(title_seconds=0, hold_seconds=0, accent="#00ff00")
    # Half a second for each: the first ends before, the second is cut off
    assert film(job(*agents, seconds=1, style=accent), tmp_path / "film.mp4") == (2 + 4) / FPS
    _, pictures = read(tmp_path / "film.mp4")
    reds = [red_of(picture) for picture in pictures[::REPEATS]]
    np.testing.assert_allclose(reds, [250, 225, 250, 225, 200, 175], atol=4)
    bars = [(pictures[index][-3, :, 1] > 128).mean() for index in (0, -1)]
    np.testing.assert_allclose(bars, [0.5, 1.0], atol=0.01)
    assert agents[0].env.get_attr("closed") == agents[1].env.get_attr("closed") == [True]


def test_a_grid_shows_all_at_once_and_dims_those_that_are_over(tmp_path):
    agents = [make_agent(length=length) for length in (1, 3)]
    plain = OverlayStyle(title_seconds=0, hold_seconds=0.25)
    # Four pictures of the longer one, and the last stays
    assert film(job(*agents, is_grid=True, style=plain), tmp_path / "film.mp4") == (4 + 2) / FPS
    _, pictures = read(tmp_path / "film.mp4")
    halves = [
        [int(np.median(picture[450:550, x : x + 100, 0])) for x in (430, 1390)] for picture in pictures[::REPEATS]
    ]
    np.testing.assert_allclose(halves[:4], [[250, 250], [225, 225], [124, 200], [124, 175]], atol=4)
    assert agents[0].env.get_attr("closed") == agents[1].env.get_attr("closed") == [True]


def test_the_same_seed_gives_the_same_episode(tmp_path):
    class Seeded(gym.Wrapper):
        def render(self):
            return np.full((30, 40, 3), self.unwrapped.np_random.integers(255), np.uint8)

    quick = OverlayStyle(title_seconds=0, hold_seconds=0)
    reds = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / f"{name}.mp4"
        film(job(make_agent(length=1, wrap=Seeded), seed=seed, style=quick), path)
        reds.append([red_of(picture) for picture in read(path)[1]])
    assert reds[0] == reds[1] != reds[2]


def test_an_interrupted_film_leaves_no_file(tmp_path):
    agent = make_agent()

    def interrupt(seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        film(job(agent), tmp_path / "film.mp4", interrupt)
    assert list(tmp_path.iterdir()) == [] and agent.env.get_attr("closed") == [True]


@pytest.mark.parametrize("is_grid", [False, True])
def test_an_environment_without_pictures_leaves_no_file(tmp_path, is_grid):
    agents = [make_agent(), make_agent(render_mode=None)]
    with pytest.raises(CantRender, match="render mode is None"):
        film(job(*agents, is_grid=is_grid), tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == [] and agents[1].env.get_attr("closed") == [True]


def test_progress_counts_the_seconds_of_the_film(tmp_path):
    told = []
    seconds = film(short := job(make_agent(length=2)), tmp_path / "film.mp4", told.append)
    assert told[-1] == seconds < short.longest and told == sorted(told)
    assert short.longest == 60.25
