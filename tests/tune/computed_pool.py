"""A pool whose trainings are computed: a score that depends on the learning rate, the seed and the step."""

import math
import random

from sb3_ext.tune.pool import Done, Lost, Reached, Refused
from sb3_ext.zoo.trial_training import Curve, Point


def score(section, seed, fraction):
    """Best at a learning rate of 0.001, with noise of the seed."""
    learning_rate = float(str(section["learning_rate"]).removeprefix("lin_"))
    distance = abs(math.log10(learning_rate / 1e-3))
    noise = random.Random(f"{seed} {section['learning_rate']} {fraction}").uniform(-2, 2)
    return 100 * fraction * math.exp(-distance) + noise


class ComputedPool:
    """
    Trainings go on one evaluation at a time, in turn.

    :param lose: keys of trainings whose worker dies once, after their second evaluation
    :param refuse: whether a section can't be trained
    :param kill_after: raise KeyboardInterrupt after this many events
    """

    def __init__(self, size=1, lose=(), refuse=lambda section: False, diverge=lambda section: False, kill_after=None):
        self.size = size
        self._lose, self._refuse, self._diverge = set(lose), refuse, diverge
        self._left = kill_after
        self._trainings, self._points, self._answers, self._order = {}, {}, {}, []
        self.started, self.stopped, self.is_closed = [], [], False

    def submit(self, key, training):
        assert len(self._trainings) < self.size, "more trainings than workers"
        assert key not in self._trainings
        self._trainings[key], self._points[key], self._answers[key] = training, [], True
        self._order.append(key)
        self.started.append((key, training.seed))

    def answer(self, key, go_on):
        self._answers[key] = go_on

    def stop(self, key):
        self.stopped.append(key)
        self._forget(key)

    def close(self):
        self.is_closed = True

    def _forget(self, key):
        for table in (self._trainings, self._points, self._answers):
            table.pop(key, None)
        self._order = [other for other in self._order if other != key]

    def wait(self, timeout):
        if not self._order:
            return []
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise KeyboardInterrupt
        key = self._order.pop(0)
        event = self._next(key)
        if isinstance(event, Reached):
            self._order.append(key)
        else:
            self._forget(key)
        return [event]

    def _next(self, key):
        training, points = self._trainings[key], self._points[key]
        if self._refuse(training.section):
            return Refused(key, "learning_rate: no.")
        if self._diverge(training.section) and points:
            return Done(key, Curve(tuple(points), points[-1].step, 1.0, error="NaN"))
        if key in self._lose and len(points) == 2:
            self._lose.discard(key)
            return Lost(key, "its process was killed")
        n = training.evaluations
        if not self._answers[key]:
            return Done(key, Curve(tuple(points), points[-1].step, 1.0, is_stopped=True))
        if len(points) == n:
            return Done(key, Curve(tuple(points), training.timesteps, 1.0))
        step = training.timesteps * (len(points) + 1) // n
        point = Point(step, score(training.section, training.seed, step / training.timesteps), 0.1 * len(points))
        points.append(point)
        return Reached(key, point)
