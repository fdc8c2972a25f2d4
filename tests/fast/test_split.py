"""The critic's half of an update in another process: the same results, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_ext import PPOExt
from sb3_ext.fast import critic_process
from sb3_ext.fast.faster_of import FasterOf

pytestmark = pytest.mark.skipif(not critic_process.can_fork(), reason="needs two cores, and Linux on x86")

ALONE, SPLIT = 0, 1
#: Seven updates: three and three to try both ways, and one by choice
STEPS = 7 * 64


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(before)


def always(monkeypatch: pytest.MonkeyPatch, way: int) -> None:
    monkeypatch.setattr(FasterOf, "choose", lambda _: way)


def make(env_id: str = "CartPole-v1", **kwargs: Any) -> PPOExt:
    kwargs = {"n_steps": 64, "batch_size": 32, "n_epochs": 3, "seed": 3, "device": "cpu", **kwargs}
    return PPOExt("MlpPolicy", env_id, **kwargs)


def state(model: PPOExt) -> list[np.ndarray]:
    moments = [entry[name] for entry in model.policy.optimizer.state.values() for name in ("exp_avg", "step")]
    return [tensor.detach().numpy().copy() for tensor in [*model.policy.parameters(), *moments]]


def pid(model: PPOExt) -> int:
    process = model._fast_policy._critic_process._process  # type: ignore[union-attr]
    assert process.is_alive()
    return process.pid


def is_running(number: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except FileNotFoundError:
        return False


def ends(number: int) -> bool:
    end = time.time() + 10
    while is_running(number) and time.time() < end:
        time.sleep(0.05)
    return not is_running(number)


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("CartPole-v1", {}),
        ("CartPole-v1", {"batch_size": 50, "ent_coef": 0.01, "clip_range_vf": 0.2, "max_grad_norm": 0.01}),
        ("CartPole-v1", {"target_kl": 1e-4, "learning_rate": 1e-3}),
        ("CartPole-v1", {"normalize_values": True, "value_loss": "huber"}),
        ("Pendulum-v1", {}),
        ("FrozenLake-v1", {}),
    ],
)
def test_the_results_are_the_same_to_the_last_bit(
    env_id: str, kwargs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for way in (ALONE, SPLIT):
        always(monkeypatch, way)
        model = make(env_id, **kwargs).learn(STEPS)
        assert (model._fast_policy._critic_process is not None) == (way == SPLIT)  # type: ignore[union-attr]
        losses = {name: value for name, value in model.logger.name_to_value.items() if name.startswith("train/")}
        assert {"train/value_loss", "train/loss", "train/grad_norm_critic"} <= set(losses)
        results.append((state(model), losses))
    for alone, split in zip(*(result[0] for result in results), strict=True):
        np.testing.assert_array_equal(alone, split)
    assert results[0][1] == results[1][1]


def test_both_ways_are_tried_and_the_model_saves_and_loads(tmp_path: Path) -> None:
    model = make().learn(STEPS)
    assert all(model._fast_policy.faster_of._seconds)  # type: ignore[union-attr]
    model.save(tmp_path / "model.zip")
    loaded = PPOExt.load(tmp_path / "model.zip", env=model.get_env(), device="cpu")
    for saved, there in zip(state(loaded), state(model), strict=True):
        np.testing.assert_array_equal(saved, there)
    loaded.learn(STEPS)


def test_rollback_alone_and_several_threads_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    model = make(kl_rollback=True, target_kl=0.01).learn(64)
    assert model._fast_policy._critic_process is None  # type: ignore[union-attr]
    model = make(fast="alone").learn(64)
    assert model._fast_policy._critic_process is None  # type: ignore[union-attr]
    th.set_num_threads(2)
    model = make().learn(64)
    assert model._fast_policy._critic_process is None  # type: ignore[union-attr]


def test_the_process_ends_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    model = make().learn(64)
    number = pid(model)
    model._fast_policy = None
    assert ends(number)


def test_an_interrupted_update_leaves_nothing_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    model = make().learn(64)
    number = pid(model)
    looked = []

    def interrupted(*_: Any) -> None:
        looked.append(1)
        if len(looked) == 3:
            raise KeyboardInterrupt

    actor_backward = type(model._fast_policy).backward_actor  # type: ignore[union-attr]
    monkeypatch.setattr(
        type(model._fast_policy), "backward_actor", lambda *args: (interrupted(), actor_backward(*args))
    )
    with pytest.raises(KeyboardInterrupt):
        model.learn(64, reset_num_timesteps=False)
    steps = {int(entry["step"]) for entry in model.policy.optimizer.state.values()}
    assert steps == {2 * 3 + 2}
    monkeypatch.undo()
    always(monkeypatch, SPLIT)
    model.learn(64, reset_num_timesteps=False)
    assert pid(model) == number


def test_a_process_that_does_not_come_to_work_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    monkeypatch.setattr(critic_process, "_START_TIMEOUT", 0.3)
    monkeypatch.setattr(critic_process._Half, "try_out", lambda _: time.sleep(60))
    model = make().learn(STEPS)
    assert model._fast_policy._critic_process is None  # type: ignore[union-attr]
    always(monkeypatch, ALONE)
    for there, alone in zip(state(model), state(make().learn(STEPS)), strict=True):
        np.testing.assert_array_equal(there, alone)


def test_its_death_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    model = make().learn(64)
    os.kill(pid(model), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"process that updates the critic .*exit code -9"):
        model.learn(64, reset_num_timesteps=False)


def test_it_does_not_outlive_a_killed_training(tmp_path: Path) -> None:
    script = """
import time
import torch as th
th.set_num_threads(1)
from sb3_ext import PPOExt
from sb3_ext.fast.faster_of import FasterOf
FasterOf.choose = lambda _: 1
model = PPOExt("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu").learn(64)
print(model._fast_policy._critic_process._process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as training:
        assert training.stdout is not None
        number = int(training.stdout.readline())
        assert is_running(number)
        training.kill()
    assert ends(number)


def test_the_faster_way_is_taken_and_the_other_one_tried_again() -> None:
    faster_of, ways = FasterOf(trials=2, again_after=5), []
    for _ in range(15):
        way = faster_of.choose()
        ways.append(way)
        faster_of.tell(way, 1.0 if way else 1.2)
    assert ways == [0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0]


def test_a_way_that_is_far_slower_is_tried_less_often() -> None:
    faster_of, ways = FasterOf(trials=2, again_after=5), []
    for _ in range(100):
        way = faster_of.choose()
        ways.append(way)
        faster_of.tell(way, 1.0 if way else 3.0)
    assert ways.count(0) == 2 + 4


def test_a_way_that_was_slow_while_the_machine_was_busy_is_taken_at_the_next_try() -> None:
    faster_of = FasterOf(trials=3, again_after=10)
    for _ in range(20):
        way = faster_of.choose()
        faster_of.tell(way, 2.0 if way else 1.0)
    ways = []
    for _ in range(60):
        ways.append(faster_of.choose())
        faster_of.tell(ways[-1], 0.5 if ways[-1] else 1.0)
    assert ways.index(1) < 40 and ways[ways.index(1) + 1] == 1
    assert ways.count(0) < 40


def test_a_way_that_becomes_slower_is_left() -> None:
    faster_of = FasterOf(trials=3)
    for _ in range(20):
        way = faster_of.choose()
        faster_of.tell(way, 1.0 if way else 2.0)
    for _ in range(3):
        way = faster_of.choose()
        faster_of.tell(way, 3.0 if way else 2.0)
    assert faster_of.choose() == 0
