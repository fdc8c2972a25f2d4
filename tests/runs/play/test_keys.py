"""Keys and the actions that they mean."""

import numpy as np
import pytest
from gymnasium import spaces

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.play.keys import make_key_map

ATARI = ["NOOP", "FIRE", "UP", "RIGHT", "UPRIGHT", "UPRIGHTFIRE"]


def discrete(labels, given=()):
    return make_key_map(spaces.Discrete(len(labels)), labels, [], given)


def meant(keys, *held):
    action = keys.action(held)
    return None if action is None else action.tolist()


@pytest.mark.parametrize(
    ("labels", "held", "action"),
    [
        (["left", "right"], ["right"], 1),
        (["left", "right"], ["d"], 1),
        (["left", "right"], ["up"], None),
        (["nothing", "left engine", "main engine", "right engine"], ["up"], 2),
        (["nothing", "steer right", "steer left", "gas", "brake"], ["left"], 2),
        (["nothing", "steer right", "steer left", "gas", "brake"], ["down"], 4),
        (["down", "up", "right", "left", "pick up", "drop off"], ["p"], 4),
        (["down", "up", "right", "left", "pick up", "drop off"], ["r"], 5),  # d is an arrow
        (["stick", "hit"], ["s"], 0),
        (ATARI, ["space"], 1),
        (ATARI, ["w", "d"], 4),
        (ATARI, ["space", "right", "up"], 5),
        (ATARI, ["space", "right"], 1),  # there is no such action: one of the keys counts
    ],
)
def test_names_of_actions_decide_their_keys(labels, held, action):
    assert meant(discrete(labels), *held) == action


def test_actions_without_names_have_numbers():
    keys = make_key_map(spaces.Discrete(12), [], [])
    assert [meant(keys, key) for key in ("0", "9")] == [0, 9]
    assert len(keys.describe().split(", ")) == 12
    assert meant(make_key_map(spaces.Discrete(3, start=5), [], []), "2") == 7


def test_an_action_that_changes_nothing_is_that_without_a_key():
    assert discrete(ATARI).idle == 0
    assert discrete(["left", "nothing", "right"]).idle == 1
    assert discrete(["left", "right"]).idle is None


def test_keys_move_the_numbers_of_a_continuous_action():
    keys = make_key_map(spaces.Box(-2.0, 2.0, (3,), np.float32), [], [])
    assert meant(keys, "right", "down") == [2.0, -2.0, 0.0]
    assert meant(keys, "j") == [0.0, 0.0, -2.0] and keys.idle.tolist() == [0.0, 0.0, 0.0]
    assert keys.action(["right"]).dtype == np.float32


def test_gas_and_brake_are_up_and_down():
    space = spaces.Box(np.array([-1, 0, 0], np.float32), np.array([1, 1, 1], np.float32))
    keys = make_key_map(space, [], ["steering", "gas", "brake"])
    assert meant(keys, "left", "up") == [-1.0, 1.0, 0.0] and meant(keys, "down") == [0.0, 0.0, 1.0]


def test_the_main_engine_is_up():
    keys = make_key_map(spaces.Box(-1.0, 1.0, (2,), np.float32), [], ["main engine", "side engines"])
    assert meant(keys, "up", "left") == [1.0, -1.0]


@pytest.mark.parametrize(
    ("space", "held", "action"),
    [
        (spaces.MultiBinary(3), ["1", "3"], [1, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), ["1", "3"], [1, 2]),
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), ["left"], [-1.0]),
    ],
)
def test_other_spaces_have_keys_too(space, held, action):
    assert meant(make_key_map(space, [], []), *held) == action
    assert space.contains(make_key_map(space, [], []).action(held))


def test_keys_can_be_changed():
    keys = discrete(["left", "right", "up"], ["j=left", "k+space=1", "a=UP"])
    assert meant(keys, "j") == 0 and meant(keys, "k", "space") == 1 and meant(keys, "a") == 2
    assert meant(keys, "left") is None and meant(keys, "up") is None  # their actions have others now
    assert keys.describe() == "j: left, k+space: right, a: up"
    torque = make_key_map(spaces.Box(-2.0, 2.0, (1,), np.float32), [], ["torque"], ["x=torque:1.5"])
    assert meant(torque, "x") == [1.5] and meant(torque, "left") == [-2.0]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("j", "expected KEY=ACTION"),
        ("j=up", "there is no action 'up': 0 (left), 1 (right)"),
        ("j=2", "there is no action '2'"),
        ("lef=left", "there is no key 'lef': a character, or did you mean 'left'?"),
        ("+=left", "there is no key ''"),
    ],
)
def test_a_mistake_in_the_keys_is_explained(word, message):
    with pytest.raises(UsageError) as error:
        discrete(["left", "right"], [word])
    assert message in str(error.value)


@pytest.mark.parametrize("meaning", ["torque:3", "1:1", "torque", "speed:1", "torque:much"])
def test_a_mistake_in_the_keys_of_numbers_is_explained(meaning):
    with pytest.raises(UsageError, match="It has: 0 or 'torque' from -2 to 2"):
        make_key_map(spaces.Box(-2.0, 2.0, (1,), np.float32), [], ["torque"], [f"j={meaning}"])


def test_actions_of_other_spaces_are_refused():
    with pytest.raises(UsageError, match="can't be chosen with keys"):
        make_key_map(spaces.Text(3), [], [])
