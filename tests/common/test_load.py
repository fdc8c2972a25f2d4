"""An agent is loaded by an algorithm of its own kind, and by no other."""

import io

import pytest
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt

KINDS = [
    {PPO, PPOExt},
    {A2C, A2CExt},
    {REINFORCE},
    {RecurrentPPO, RecurrentPPOExt},
    {MaskablePPO, MaskablePPOExt},
    {DQN},
]
ALL = [algorithm for kind in KINDS for algorithm in sorted(kind, key=lambda cls: cls.__name__)]
OURS = [algorithm for algorithm in ALL if algorithm.__module__.startswith("sb3_ext")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    for algorithm in ALL:
        policy = "MlpLstmPolicy" if issubclass(algorithm, RecurrentPPO) else "MlpPolicy"
        sizes = {"buffer_size": 10} if algorithm is DQN else {"n_steps": 8}
        algorithm(policy, "CartPole-v1", device="cpu", **sizes).save(folder / algorithm.__name__)
    return folder


@pytest.mark.parametrize("loader", OURS)
@pytest.mark.parametrize("saver", ALL)
def test_only_agents_of_the_same_kind_are_loaded(saver, loader, saved):
    path = saved / f"{saver.__name__}.zip"
    if any({saver, loader} <= kind for kind in KINDS):
        assert isinstance(loader.load(path, device="cpu"), loader)
    else:
        with pytest.raises(ValueError, match=r"saved by|can't use"):
            loader.load(path, device="cpu")


def test_an_agent_is_loaded_from_an_open_file(saved):
    file = io.BytesIO((saved / "PPOExt.zip").read_bytes())
    assert isinstance(PPOExt.load(file, device="cpu"), PPOExt)
    assert not file.closed


def test_a_subclass_that_takes_anything_is_asked_nothing(saved):
    class Mine(PPOExt):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    assert Mine.load(saved / "PPOExt.zip", device="cpu", mine=1).mine == 1
