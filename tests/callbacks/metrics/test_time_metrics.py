"""How far a training is and how long it will take, and how often expensive work is done."""

import pytest

from sb3_ext.callbacks.metrics.time_metrics import TimeBudget, TimeMetrics


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


def test_the_time_left_is_that_of_the_steps_that_are_left():
    clock = Clock()
    times = TimeMetrics(0, 4, clock)
    for step in range(100, 501, 100):
        clock.wait(2.0)
        metrics = times.measure(step, 2000, True)
    assert metrics == {
        "time/vec_steps": 125,
        "time/progress": 0.25,
        "time/fps_now": pytest.approx(50.0),
        "time/eta": pytest.approx(30.0),
    }


def test_steps_of_an_earlier_training_are_progress_but_not_speed():
    clock = Clock()
    times = TimeMetrics(1_000_000, 8, clock)
    clock.wait(10.0)
    metrics = times.measure(1_001_000, 2_000_000, True)
    assert metrics["time/eta"] == pytest.approx(9990.0)  # 999,000 steps, 100 a second
    assert metrics["time/progress"] == pytest.approx(0.5005)
    assert metrics["time/vec_steps"] == 125_125


def test_the_time_left_follows_a_speed_that_changes():
    clock = Clock()
    times = TimeMetrics(0, 1, clock)
    step = 0
    for steps, seconds in [(1000, 1.0)] * 10 + [(100, 1.0)] * 200:  # before and after learning starts
        step += steps
        clock.wait(seconds)
        metrics = times.measure(step, 100_000, True)
    assert metrics["time/eta"] == pytest.approx((100_000 - step) / 100, rel=0.12)


def test_the_time_of_evaluations_is_shared_by_all_steps():
    clock = Clock()
    times = TimeMetrics(0, 1, clock)
    etas = []
    for step in range(100, 50_001, 100):
        clock.wait(0.1 + 10.0 * (step % 2500 == 0))  # 1,000 steps a second, and 10 seconds after every 2,500
        metrics = times.measure(step, 100_000, True)
        if step >= 10_000:
            etas.append(metrics["time/eta"] / ((100_000 - step) * (0.001 + 10 / 2500)))
    assert 0.7 < min(etas) and max(etas) < 1.45


def test_rows_between_the_regular_ones_leave_the_speed_alone():
    clock = Clock()
    times = TimeMetrics(0, 1, clock)
    clock.wait(1.0)
    assert "time/eta" not in times.measure(50, 1000, False)
    clock.wait(1.0)
    assert times.measure(100, 1000, True)["time/fps_now"] == pytest.approx(50.0)
    between = times.measure(120, 1000, False)
    assert "time/fps_now" not in between
    assert between["time/eta"] == pytest.approx(17.6)


def test_no_time_is_left_at_the_end():
    clock = Clock()
    times = TimeMetrics(0, 1, clock)
    clock.wait(1.0)
    metrics = times.measure(1200, 1000, True)  # the last rollout goes beyond
    assert metrics["time/eta"] == 0.0
    assert metrics["time/progress"] == 1.0


def test_expensive_work_stays_within_its_share_of_the_time():
    clock = Clock()
    budget = TimeBudget(0.01, clock)
    n_done = 0
    for _ in range(10_000):
        clock.wait(0.025)
        if budget.allows:
            n_done += 1
            with budget.spending():
                clock.wait(0.002)
    elapsed = clock.now - 100.0
    assert 0.009 < 0.002 * n_done / elapsed <= 0.0101


def test_expensive_work_is_done_at_once_the_first_time():
    assert TimeBudget(0.001, Clock()).allows
