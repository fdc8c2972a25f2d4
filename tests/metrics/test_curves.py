"""Curves keep evenly spaced points, however long a training is."""

import numpy as np
import pytest

from sb3_ext.metrics.curves import BoundedCurve, CurveStore


@pytest.mark.parametrize("n_values", [1, 7, 64, 1000])
@pytest.mark.parametrize("piece", [1, 5, 1000])
def test_a_curve_has_evenly_spaced_points_however_it_comes(n_values, piece):
    curve = BoundedCurve(max_points=16)
    steps, values = np.arange(n_values), np.sin(np.arange(n_values))
    for start in range(0, n_values, piece):
        curve.extend(steps[start : start + piece], values[start : start + piece])
    kept = curve.series()
    every = 1
    while -(-n_values // every) > 16:
        every *= 2
    expected = sorted({*range(0, n_values, every), n_values - 1, int(values.argmin()), int(values.argmax())})
    assert kept.steps.tolist() == expected and kept.values.tolist() == values[expected].tolist()
    assert (curve.n_values, curve.n_broken, curve.broken_from) == (n_values, 0, None)


@pytest.mark.parametrize("n_values", [1, 7, 64, 1000])
@pytest.mark.parametrize("piece", [1, 7, 100])
def test_values_in_pieces_give_the_same_points(n_values, piece):
    in_pieces, at_once = BoundedCurve(max_points=16), BoundedCurve(max_points=16)
    points = [(step, float(step)) for step in range(n_values)]
    for start in range(0, n_values, piece):
        in_pieces.add(points[start : start + piece])
    at_once.extend(np.arange(n_values), np.arange(n_values, dtype=float))
    np.testing.assert_array_equal(in_pieces.series(), at_once.series())
    assert in_pieces.n_values == n_values


def test_a_store_has_a_curve_for_each_metric_with_the_steps_of_its_rows():
    store = CurveStore()
    for step in range(100):
        store.add(step, {"always": 2.0 * step, **({"sometimes": 1.0} if step % 10 == 0 else {})})
    assert store["always"].series().values.tolist() == [2.0 * step for step in range(100)]
    assert store["sometimes"].series().steps.tolist() == list(range(0, 100, 10))
    assert not len(store["never"].series().values)
