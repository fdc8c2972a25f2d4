"""The look of a film: where numbers are, that they fit, how pictures are scaled, and which styles are refused."""

import cv2
import matplotlib
import numpy as np
import pytest

from sb3_ext.common.options import read_options
from sb3_ext.runs.play.overlay import HEIGHT, WIDTH, Cell, Overlay, OverlayStyle, scaled

WHITE = np.full((400, 600, 3), 255, np.uint8)
TEXTS = {"score": "143", "step": "1,143", "action": "left engine"}
GREEN = {"accent": "#00ff00"}


def green_in(picture):
    """Rows and columns of the score, which has this colour."""
    return np.nonzero(cv2.inRange(picture, (0, 200, 0), (60, 255, 255)))


@pytest.mark.parametrize(
    ("position", "rows", "columns"),
    [
        ("right", (200, 880), (1410, WIDTH)),
        ("left", (200, 880), (0, 480)),
        ("top-left", (0, 400), (0, 700)),
        ("top-right", (0, 400), (1220, WIDTH)),
        ("bottom-left", (680, HEIGHT), (0, 700)),
        ("bottom-right", (680, HEIGHT), (1220, WIDTH)),
    ],
)
def test_the_numbers_are_where_the_style_says(position, rows, columns):
    found = green_in(Overlay(OverlayStyle(position=position, **GREEN)).frame(WHITE, ("CartPole-v1",), TEXTS))
    for places, (low, high) in zip(found, (rows, columns), strict=True):
        assert len(places) > 100 and low < places.min() and places.max() < high


@pytest.mark.parametrize("position", ["left", "right"])
def test_numbers_beside_the_picture_cover_none_of_it(position):
    overlay = Overlay(OverlayStyle(position=position))
    shown = overlay.frame(WHITE, ("CartPole-v1",), {})
    with_numbers = overlay.frame(WHITE, ("CartPole-v1",), {name: "9" * 40 for name in TEXTS})
    in_picture = (shown[540] == 255).all(axis=1)
    assert in_picture.sum() > 1300 and (with_numbers[100:900, in_picture] == 255).all()


def test_long_texts_and_many_fields_in_a_large_font_fit():
    fields = ("score", "step", "action", "value", "reward", "probability", "entropy", "episode")
    for position in ("right", "bottom-right"):
        style = OverlayStyle(fields=fields, position=position, font_size=120, color="#00ff00", label_color="#00ff00")
        texts = dict.fromkeys(fields, "an action with a very long name")
        black = np.zeros((400, 600, 3), np.uint8)
        rows, columns = green_in(Overlay(style).frame(black, ("An-Environment/With-A-Long-Name-v5", "ppo"), texts))
        assert rows.min() > 5 and rows.max() < HEIGHT - 5 and columns.max() < WIDTH - 5
        assert rows.max() - rows.min() > 900  # as large as fits


def test_a_larger_font_makes_larger_numbers():
    heights = []
    for font_size in (30, 60):
        rows, _ = green_in(Overlay(OverlayStyle(font_size=font_size, **GREEN)).frame(WHITE, (), TEXTS))
        heights.append(np.ptp(rows))
    assert 1.8 < heights[1] / heights[0] < 2.2


def test_another_font_draws_other_letters():
    serif = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSerif.ttf"
    shown = [Overlay(OverlayStyle(font=font)).frame(WHITE, (), TEXTS) for font in (None, serif)]
    assert (shown[0] != shown[1]).any()


def test_only_the_opacity_of_the_box_lets_the_picture_through():
    darkest = []
    for opacity in (1.0, 0.5):
        style = OverlayStyle(position="top-left", box="black", opacity=opacity)
        darkest.append(int(Overlay(style).frame(WHITE, (), TEXTS)[40, 200:400].min()))
    assert darkest == [0, 127]


def test_pixel_art_grows_by_a_whole_factor_and_stays_sharp():
    art = np.random.default_rng(0).integers(0, 255, (210, 160, 3), dtype=np.uint8)
    large = scaled(art, 1400, 1050)
    assert large.shape == (1050, 800, 3)
    np.testing.assert_array_equal(large[2::5, 2::5], art)
    np.testing.assert_array_equal(large, art.repeat(5, axis=0).repeat(5, axis=1))


@pytest.mark.parametrize(
    ("shape", "expected"), [((400, 600), (400, 600)), ((1000, 500), (500, 250)), ((500, 1000), (300, 600))]
)
def test_other_pictures_fill_the_place_with_the_same_aspect_ratio(shape, expected):
    assert scaled(np.zeros((*shape, 3), np.uint8), 600, 500)[..., 0].shape == expected


@pytest.mark.parametrize(("count", "shape"), [(2, (400, 600)), (3, (210, 160)), (9, (400, 600)), (1, (8, 8))])
def test_a_grid_shows_every_picture_whole(count, shape):
    """Each has another shade of blue, and green in its corners."""
    cells = []
    for index in range(count):
        picture = np.zeros((*shape, 3), np.uint8)
        picture[..., 2] = 100 + 15 * index
        picture[[0, 0, -1, -1], [0, -1, 0, -1]] = (0, 255, 0)
        cells.append(Cell(picture, f"{index} steps", "score 7", False))
    shown = Overlay(OverlayStyle(accent="white", label_color="white")).grid(cells)
    assert shown.shape == (HEIGHT, WIDTH, 3)
    for index in range(count):
        shade = 100 + 15 * index
        rows, columns = np.nonzero(cv2.inRange(shown, (0, 0, shade - 2), (2, 2, shade + 2)))
        assert len(rows) > 0.9 * np.ptp(rows) * np.ptp(columns) > 30_000
        assert np.ptp(rows) / np.ptp(columns) == pytest.approx(shape[0] / shape[1], rel=0.02)


def test_the_title_card_highlights_the_score():
    overlay = Overlay(OverlayStyle(**GREEN))
    rows, columns = green_in(overlay.title("CartPole-v1", ("ppo", "20,000 steps"), "Score 500"))
    without, _ = green_in(overlay.title("CartPole-v1", ("ppo", "20,000 steps")))
    assert len(rows) > 5 * len(without) > 0  # of which the line below the heading stays
    assert abs((columns.min() + columns.max()) / 2 - WIDTH / 2) < 10


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"colour": "red"}, "style has no option 'colour': did you mean 'color'?"),
        ({"accent": "bluish"}, "style: accent='bluish' must be a colour, such as 'white' or '#58a6ff'."),
        ({"font": "nosuch.ttf"}, "style: font='nosuch.ttf' must be the file of a TrueType or OpenType font."),
        ({"font_size": 500}, "style: font_size=500 must be at most 120."),
        ({"position": "top"}, "style: position='top' must be 'right', 'left', 'top-left'"),
        ({"fields": ["scor"]}, "did you mean 'score'?"),
        ({"title_seconds": -1}, "style: title_seconds=-1 must be at least 0."),
    ],
)
def test_a_mistake_in_a_style_is_explained(given, message):
    with pytest.raises((TypeError, ValueError)) as error:
        read_options(OverlayStyle, given, "style")
    assert message in str(error.value)
