"""What is saved and restored of an object with a state."""

import pickle
from collections import Counter, defaultdict, deque

import numpy as np

from sb3_ext.common.stateful import Stateful


class Inner(Stateful):
    state_names = ("count",)

    def __init__(self):
        self.count, self.setting = 0, "given"


class Outer(Stateful):
    state_names = ("numbers", "window", "totals", "counts", "array", "inner", "by_name")

    def __init__(self, window=3):
        self.numbers, self.array = [1, 2], np.zeros(2)
        self.window = deque(maxlen=window)
        self.totals, self.counts = defaultdict(float), Counter()
        self.inner, self.by_name = Inner(), {"a": Inner()}


class Derived(Outer):
    state_names = ("own",)
    own = 5


def changed():
    outer = Derived()
    outer.window.extend([1, 2, 3])
    outer.totals["x"], outer.counts["y"], outer.own = 2.5, 3, 6
    outer.inner.count, outer.by_name["a"].count = 7, 8
    outer.numbers.append(3)
    outer.array += 1
    return outer


def test_a_state_that_was_pickled_can_be_restored():
    state = changed().state()
    restored = Derived()
    restored.restore(pickle.loads(pickle.dumps(state)))
    assert (restored.numbers, restored.own, restored.inner.count, restored.by_name["a"].count) == ([1, 2, 3], 6, 7, 8)
    assert restored.array.tolist() == [1, 1]
    restored.totals["new"] += 1
    assert restored.totals == {"x": 2.5, "new": 1} and restored.counts == Counter(y=3)


def test_a_state_does_not_change_with_its_owner():
    outer = changed()
    state = outer.state()
    before = pickle.dumps(state)
    outer.numbers.append(4)
    outer.window.append(4)
    outer.array += 1
    outer.inner.count = outer.by_name["a"].count = outer.counts["y"] = 0
    assert pickle.dumps(state) == before


def test_settings_stay_as_they_are():
    restored = Outer(window=2)
    restored.inner.setting = "new"
    restored.restore(changed().state())
    assert list(restored.window) == [2, 3] and restored.inner.setting == "new"


def test_an_object_that_is_not_there_any_more_stays_away():
    restored = Outer()
    restored.inner = None
    restored.restore(changed().state())
    assert restored.inner is None


def test_an_object_that_is_new_starts_afresh():
    outer = changed()
    outer.inner = None
    restored = Outer()
    restored.restore(outer.state())
    assert restored.inner.count == 0


def test_what_a_state_lacks_stays_as_it_is():
    restored = changed()
    restored.restore({"numbers": []})
    assert restored.numbers == [] and restored.own == 6
