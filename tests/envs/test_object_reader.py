"""What the reader makes of a RAM, in games of our own."""

from dataclasses import replace

import numpy as np
import pytest

from sb3_ext.envs.object_games import Axis, Crossing, GameObject, ObjectGame
from sb3_ext.envs.objects import ObjectReader

TOY = ObjectGame(
    rom="toy",
    objects=(
        GameObject("hero", Axis(0.0, 10), Axis(105.0), speed=5),
        GameObject("ghost", Axis(0.0, 11), Axis(210.0, 12, -1.0, low=1), speed=5),
    ),
    relative=(("hero", "ghost"),),
    bits=((20, 0), (20, 3)),
    formation="gem",
    swap=(30, ((10, 11),)),
)


def read(reader, **values):
    """The features of a RAM of zeros, with some values: ``b10=5`` is a 5 at address 10."""
    ram = np.zeros(128, dtype=np.uint8)
    for name, value in values.items():
        ram[int(name[1:])] = value
    out = np.zeros(len(reader.feature_names), dtype=np.float32)
    reader.read(ram, out)
    return dict(zip(reader.feature_names, map(float, out), strict=True))


@pytest.fixture
def reader():
    return ObjectReader(TOY, frames=4, relative=True)


def test_places_are_parts_of_the_screen(reader):
    found = read(reader, b10=120, b11=40, b12=210)
    assert (found["hero.x"], found["hero.y"]) == (0.5, 0.0)
    assert (found["ghost.x"], found["ghost.y"]) == (-0.5, -1.0)
    assert found["hero.there"] == found["ghost.there"] == 1.0


def test_velocity_is_the_way_since_the_last_step(reader):
    read(reader, b10=50, b11=80, b12=60)
    found = read(reader, b10=60, b11=80, b12=80)
    assert (found["hero.vx"], found["hero.vy"]) == (0.5, 0.0)  # 10 pixels of the 20 that are possible in 4 frames
    assert (found["ghost.vx"], found["ghost.vy"]) == (0.0, -1.0)


@pytest.mark.parametrize("values", [{"b12": 0}, {"b11": 200, "b12": 9}])
def test_an_object_that_is_absent_or_off_the_screen_has_only_zeros(reader, values):
    found = read(reader, **{"b10": 50, "b11": 30, **values})
    assert all(value == 0 for name, value in found.items() if "ghost" in name)
    assert found["hero.there"] == 1.0


def test_an_object_that_appears_again_has_not_moved(reader):
    read(reader, b11=30, b12=100)
    read(reader, b11=35, b12=0)
    found = read(reader, b11=40, b12=100)
    assert (found["ghost.vx"], found["ghost.there"]) == (0.0, 1.0)
    assert read(reader, b11=44, b12=100)["ghost.vx"] == pytest.approx(0.2)


def test_an_object_that_the_game_puts_elsewhere_has_not_moved(reader):
    read(reader, b11=155, b12=100)
    assert read(reader, b11=2, b12=100)["ghost.vx"] == 0.0
    assert read(reader, b11=4, b12=100)["ghost.vx"] == pytest.approx(0.1)


def test_a_velocity_is_at_most_one(reader):
    read(reader, b10=50)
    assert read(reader, b10=80)["hero.vx"] == 1.0


def test_nothing_has_moved_at_the_first_step_of_an_episode(reader):
    read(reader, b10=50)
    reader.forget()
    assert read(reader, b10=60)["hero.vx"] == 0.0


def test_where_an_object_is_as_seen_from_another_is_finest_near_it(reader):
    found = read(reader, b10=50, b11=60, b12=105)
    assert found["ghost from hero.x"] == pytest.approx(np.tanh(10 / TOY.reach))
    assert found["ghost from hero.y"] == 0.0


def test_objects_that_change_places_in_the_ram_keep_theirs_in_the_observation(reader):
    assert read(reader, b10=80, b11=40, b12=9)["hero.x"] == read(reader, b10=40, b11=80, b12=9, b30=1)["hero.x"] == 0.0


def test_objects_in_a_formation_are_there_or_not(reader):
    assert [value for name, value in read(reader, b20=0b1000).items() if name.startswith("gem")] == [0.0, 1.0]


COURT = ObjectGame(
    rom="toy",
    objects=(
        GameObject("paddle", Axis(140.0), Axis(0.0, 10), speed=5),
        GameObject("ball", Axis(0.0, 11, low=1), Axis(0.0, 12), speed=5),
    ),
    crossing=Crossing("paddle", "ball", (40.0, 140.0)),
)


@pytest.mark.parametrize(
    ("before", "now", "crosses_at"),
    [
        ((100, 100), (110, 105), 120),
        ((100, 60), (110, 50), 60),  # off the upper wall: 30 pixels of way, 10 to the wall
        ((100, 120), (110, 130), 120),  # off the lower one
        ((100, 45), (102, 155), None),  # too far for a movement
        ((110, 100), (100, 105), None),  # goes away
        ((110, 100), (110, 105), None),  # stands still, seen from the line
        ((0, 100), (110, 105), None),  # has just appeared
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_where_the_ball_will_cross_the_paddles_line(before, now, crosses_at, swapped):
    game = COURT
    if swapped:  # the paddle moves to the left and right
        things = [GameObject(name, y, x, speed) for name, x, y, speed in COURT.objects]
        game = replace(COURT, objects=tuple(things))
    reader = ObjectReader(game, frames=4, relative=False, crossing=True)
    read(reader, b10=100, b11=before[0], b12=before[1])
    found = read(reader, b10=100, b11=now[0], b12=now[1])
    fine, coarse, comes = (found[f"ball will cross paddle.{what}"] for what in ("fine", "coarse", "comes"))
    assert comes == (crosses_at is not None)
    away = 0 if crosses_at is None else crosses_at - 100
    assert fine == pytest.approx(np.tanh(away / 6)) and coarse == pytest.approx(np.tanh(away / 30))
