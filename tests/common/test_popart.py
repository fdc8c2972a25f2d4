"""The value head that learns normalised returns."""

import pytest
import torch as th
from torch import nn

from sb3_ext.common.popart import PopArtHead


def test_new_statistics_leave_the_answers_as_they_were():
    head = PopArtHead(nn.Linear(3, 1))
    latent = th.randn(5, 3)
    for scale in (1.0, 100.0, -3.0):
        before = head(latent)
        head.update_statistics(scale * th.randn(50) + scale)
        th.testing.assert_close(head(latent), before, rtol=1e-4, atol=1e-3)
    mean, std = head.statistics()
    assert head.normalize(mean + 2 * std) == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, -200.0, 12345.678])
def test_returns_that_are_all_the_same_give_finite_answers(value):
    head = PopArtHead(nn.Linear(3, 1))
    for _ in range(5):
        head.update_statistics(th.full((50,), value))
    mean, std = head.statistics()
    assert mean == pytest.approx(value, rel=1e-4)
    assert std >= 1e-4
    assert head.normalize(th.full((4,), value)).isfinite().all()
    assert head(th.ones(4, 3)).isfinite().all()
    assert head.weight.isfinite().all()


def test_the_first_returns_count_in_full_and_later_ones_by_their_share():
    head = PopArtHead(nn.Linear(3, 1), beta=0.25)
    head.update_statistics(th.tensor([9.0, 11.0]))
    assert [float(number) for number in head.statistics()] == pytest.approx([10.0, 1.0], rel=1e-4)
    head.update_statistics(th.tensor([19.0, 21.0]))
    # Weights 0.25 * 0.75 and 0.25, in units of their sum
    mean = (0.75 * 10 + 20) / 1.75
    mean_square = (0.75 * 101 + 401) / 1.75
    assert [float(n) for n in head.statistics()] == pytest.approx([mean, (mean_square - mean**2) ** 0.5], rel=1e-4)


def test_before_the_first_returns_it_is_the_head_whose_place_it_takes():
    linear = nn.Linear(3, 1)
    head, latent = PopArtHead(linear), th.randn(5, 3)
    assert th.equal(head(latent), linear(latent))
    assert th.equal(head.normalize(latent), latent)
