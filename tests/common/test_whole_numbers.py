"""Numbers that count something: refused before training when they are not whole."""

import pytest

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt


def make(algorithm, **kwargs):
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPOExt else "MlpPolicy"
    return algorithm(policy, "CartPole-v1", device="cpu", **kwargs)


@pytest.mark.parametrize("algorithm", [A2CExt, MaskablePPOExt, PPOExt, REINFORCE, RecurrentPPOExt])
def test_a_number_of_steps_that_is_none_is_refused_at_the_start(algorithm):
    with pytest.raises(ValueError, match="n_steps='many' must be a number"):
        make(algorithm, n_steps="many")


@pytest.mark.parametrize("algorithm", [MaskablePPOExt, PPOExt, RecurrentPPOExt])
@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"n_epochs": "three"}, "n_epochs='three' must be a number"),
        ({"n_epochs": 2.5}, "n_epochs=2.5 must be a whole number"),
        ({"n_epochs": 0}, "n_epochs=0 must be a whole number, at least 1"),
        ({"batch_size": "all"}, "batch_size='all' must be a number"),
    ],
)
def test_whole_numbers_are_refused_at_the_start_when_they_are_none(algorithm, written, message):
    with pytest.raises(ValueError, match=message):
        make(algorithm, **written)


def test_a_whole_number_may_be_written_as_yaml_reads_it(tmp_path):
    model = make(PPOExt, n_steps="1e2", batch_size=50.0)
    assert (model.n_steps, model.batch_size) == (100, 50) and type(model.batch_size) is int
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="n_epochs='three'"):
        PPOExt.load(tmp_path / "model", n_epochs="three")
