"""Numbers that tell how an update went."""

import math

import pytest
import torch as th

from sb3_ext.common.diagnostics import MinibatchMetrics, approx_kl, clip_fraction


def test_the_divergence_of_equal_policies_is_zero_and_of_others_positive():
    assert approx_kl(th.zeros(5)) == 0
    log_ratio = th.tensor([0.5, -0.5])
    expected = ((math.exp(0.5) - 1 - 0.5) + (math.exp(-0.5) - 1 + 0.5)) / 2
    assert approx_kl(log_ratio).item() == pytest.approx(expected, rel=1e-5)


def test_ratios_beyond_the_clip_range_on_either_side_are_counted():
    ratio = th.tensor([1.0, 1.25, 0.75, 1.5, 0.5])
    assert clip_fraction(ratio, 0.25).item() == pytest.approx(0.4), "those at the limit are inside"


def test_minibatches_are_summed_up_by_name():
    metrics = MinibatchMetrics()
    metrics.add(loss=3.0, kl=0.1)
    metrics.add(loss=-1.0, kl=0.3)
    metrics.add(loss=1.0)
    assert metrics.names == ["loss", "kl"]
    assert (metrics.mean("loss"), metrics.max("loss"), metrics.last("loss")) == (1.0, 3.0, 1.0)
    assert metrics.mean("kl") == pytest.approx(0.2)


def test_a_minibatch_that_is_not_a_number_is_not_hidden():
    metrics = MinibatchMetrics()
    for value in (1.0, math.nan, 2.0):
        metrics.add(kl=value)
    assert math.isnan(metrics.mean("kl")) and math.isnan(metrics.max("kl"))
