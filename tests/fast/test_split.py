"""The critic's half of an update in another process: the same results, and no process left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.common.fast_path import EpochResult
from sb3_ext.fast import critic_process
from sb3_ext.fast.adaptive_choice import AdaptiveChoice
from sb3_ext.ppo_ext.split_steps import TimedUpdate

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
    monkeypatch.setattr(AdaptiveChoice, "choose", lambda _: way)


def make(env: Any = "CartPole-v1", **kwargs: Any) -> PPOExt:
    kwargs = {"n_steps": 64, "batch_size": 32, "n_epochs": 3, "seed": 3, "device": "cpu", **kwargs}
    return PPOExt("MlpPolicy", env, **kwargs)


def state(model: PPOExt) -> list[np.ndarray]:
    moments = [entry[name] for entry in model.policy.optimizer.state.values() for name in ("exp_avg", "step")]
    return [tensor.detach().numpy().copy() for tensor in [*model.policy.parameters(), *moments]]


class Watch(BaseCallback):
    """
    Notes the critic's process at the end of each rollout.

    :param act: what to do when there is one
    """

    def __init__(self, act: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._act = act
        self.pids: list[int] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        process = self.model._fast_path._policy._critic_process  # type: ignore[attr-defined]
        if process is not None:
            self.pids.append(process._process.pid)
            if self._act is not None:
                self._act(self.pids[-1])


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
        model, watch = make(env_id, **kwargs), Watch()
        model.learn(STEPS, callback=watch)
        assert len(watch.pids) == (6 if way == SPLIT else 0)
        losses = {name: value for name, value in model.logger.name_to_value.items() if name.startswith("train/")}
        assert {"train/value_loss", "train/loss", "train/grad_norm_critic"} <= set(losses)
        results.append((state(model), losses))
    for alone, split in zip(*(result[0] for result in results), strict=True):
        np.testing.assert_array_equal(alone, split)
    assert results[0][1] == results[1][1]


def test_both_ways_are_tried_and_the_model_saves_and_loads(tmp_path: Path) -> None:
    model = make().learn(STEPS)
    assert all(model._fast_path._policy.split_choice._seconds)  # type: ignore[union-attr]
    model.save(tmp_path / "model.zip")
    loaded = PPOExt.load(tmp_path / "model.zip", env=model.get_env(), device="cpu")
    for saved, there in zip(state(loaded), state(model), strict=True):
        np.testing.assert_array_equal(saved, there)
    loaded.learn(STEPS)


def test_rollback_alone_and_several_threads_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    watch = Watch()
    make(kl_rollback=True, target_kl=0.01).learn(128, callback=watch)
    make(fast="alone").learn(128, callback=watch)
    th.set_num_threads(2)
    make().learn(128, callback=watch)
    assert watch.pids == []


@pytest.mark.parametrize("error", [None, OSError, KeyboardInterrupt])
def test_the_process_ends_with_learn_and_the_next_learn_starts_one(
    error: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_: int) -> None:
        if error is not None:
            raise error

    always(monkeypatch, SPLIT)
    model, watch, again = make(), Watch(end), Watch()
    with nullcontext() if error is None else pytest.raises(error):
        model.learn(128, callback=watch)
    assert not is_running(watch.pids[0])
    model.learn(128, callback=again)
    assert again.pids[0] != watch.pids[0]


def test_a_model_that_nobody_holds_is_freed_without_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    model, watch = make(env=make_vec_env("CartPole-v1", 2)), Watch()
    model.learn(256, callback=watch)
    watch.locals.clear()  # SB3's callbacks hold the local variables of learn
    freed = weakref.ref(model)
    gc.disable()
    try:
        del model, watch
        assert freed() is None
    finally:
        gc.enable()


def test_an_interrupted_update_leaves_nothing_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    model = make().learn(64)
    looked = []

    def interrupted(*_: Any) -> None:
        looked.append(1)
        if len(looked) == 3:
            raise KeyboardInterrupt

    actor_backward = type(model._fast_path._policy).backward_actor  # type: ignore[union-attr]
    monkeypatch.setattr(
        type(model._fast_path._policy), "backward_actor", lambda *args: (interrupted(), actor_backward(*args))
    )
    with pytest.raises(KeyboardInterrupt):
        model.learn(64, reset_num_timesteps=False)
    steps = {int(entry["step"]) for entry in model.policy.optimizer.state.values()}
    assert steps == {2 * 3 + 2}
    monkeypatch.undo()
    always(monkeypatch, SPLIT)
    model.learn(64, reset_num_timesteps=False)
    assert {int(entry["step"]) for entry in model.policy.optimizer.state.values()} == {2 * 3 + 2 + 2 * 3}


def test_a_process_that_does_not_come_to_work_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, SPLIT)
    monkeypatch.setattr(critic_process, "_START_TIMEOUT", 0.3)
    monkeypatch.setattr(critic_process._Half, "try_out", lambda _: time.sleep(60))
    model, watch = make(), Watch()
    with pytest.warns(UserWarning, match="did not work within"):
        model.learn(STEPS, callback=watch)
    assert watch.pids == []
    assert_equals_training_alone(model, monkeypatch)


def assert_equals_training_alone(model: PPOExt, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, ALONE)
    alone = make().learn(STEPS)
    for there, here in zip(state(model), state(alone), strict=True):
        np.testing.assert_array_equal(there, here)
    assert model.logger.name_to_value["train/loss"] == alone.logger.name_to_value["train/loss"]
    assert model._n_updates == alone._n_updates


def test_a_process_that_is_killed_between_updates_is_reported_once_and_done_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    always(monkeypatch, SPLIT)
    model, watch = make(), Watch(lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.warns(UserWarning, match="was ended by SIGKILL. Training goes on") as warned:
        model.learn(STEPS, callback=watch)
    assert len(watch.pids) == len(warned) == 1
    assert_equals_training_alone(model, monkeypatch)


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_an_update_in_which_the_process_dies_or_hangs_is_done_again(
    blow: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    always(monkeypatch, SPLIT)
    monkeypatch.setattr(critic_process, "_STUCK", 1000)
    n_orders = 0
    order = critic_process.CriticProcess.order

    def hit(self: critic_process.CriticProcess, *args: int) -> None:
        nonlocal n_orders
        n_orders += 1
        if n_orders == 10:  # the fourth minibatch of the second update; the step of the third may be under way
            os.kill(self._process.pid, blow)  # type: ignore[arg-type]
        order(self, *args)

    monkeypatch.setattr(critic_process.CriticProcess, "order", hit)
    model = make()
    with pytest.warns(UserWarning, match="Training goes on without it") as warned:
        model.learn(STEPS)
    assert len(warned) == 1
    assert n_orders == 10
    assert_equals_training_alone(model, monkeypatch)


def test_an_interruption_is_not_lost_when_the_process_dies_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: critic_process.CriticProcess, *_: float) -> None:
        os.kill(self._process.pid, signal.SIGKILL)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    always(monkeypatch, SPLIT)
    monkeypatch.setattr(critic_process.CriticProcess, "apply", end)
    model = make()
    before = state(model)
    with pytest.raises(KeyboardInterrupt):
        model.learn(64)
    for there, then in zip(model.policy.parameters(), before, strict=False):
        np.testing.assert_array_equal(there.detach().numpy(), then)


def test_it_does_not_outlive_a_killed_training(tmp_path: Path) -> None:
    script = """
import time
import torch as th
th.set_num_threads(1)
from sb3_ext import PPOExt
from sb3_ext.fast.adaptive_choice import AdaptiveChoice
AdaptiveChoice.choose = lambda _: 1
model = PPOExt("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu")
def wait(*_):
    if model.num_timesteps > 64:
        print(model._fast_path._policy._critic_process._process.pid, flush=True)
        time.sleep(600)
    return True
model.learn(128, callback=wait)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as training:
        assert training.stdout is not None
        number = int(training.stdout.readline())
        assert is_running(number)
        training.kill()
    assert ends(number)


class NoUpdate:
    """Epochs of one minibatch that do nothing."""

    def run_epoch(self, limit: Any) -> EpochResult:
        return EpochResult(1, False, 0.5, {"approx_kl": [0.5]})

    def rollout_kl(self) -> float:
        return 0.0

    def finish(self) -> None:
        pass


def test_the_time_of_an_update_is_told_for_each_minibatch() -> None:
    choice = AdaptiveChoice()
    timed = TimedUpdate(NoUpdate(), choice, SPLIT)
    timed.finish()
    assert not choice._seconds[SPLIT], "an update without minibatches says nothing"
    assert timed.run_epoch(None).last_kl == 0.5
    timed.finish()
    assert len(choice._seconds[SPLIT]) == 1 and not choice._seconds[ALONE]


def test_the_faster_option_is_taken_and_the_other_one_tried_again() -> None:
    choice, options = AdaptiveChoice(trials=2, again_after=5), []
    for _ in range(15):
        option = choice.choose()
        options.append(option)
        choice.tell(option, 1.0 if option else 1.2)
    assert options == [0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0]


def test_an_option_that_is_far_slower_is_tried_less_often() -> None:
    choice, options = AdaptiveChoice(trials=2, again_after=5), []
    for _ in range(100):
        option = choice.choose()
        options.append(option)
        choice.tell(option, 1.0 if option else 3.0)
    assert options.count(0) == 2 + 4


def test_a_second_process_that_is_hopelessly_slow_is_tried_once() -> None:
    choice, options = AdaptiveChoice(trials=2, again_after=5), []
    for _ in range(10):
        options.append(choice.choose())
        choice.tell(options[-1], 3.0 if options[-1] else 1.0)
    assert options == [0, 0, 1, *[0] * 7]


def test_an_option_that_was_slow_while_the_machine_was_busy_is_taken_at_the_next_try() -> None:
    choice = AdaptiveChoice(trials=3, again_after=10)
    for _ in range(20):
        option = choice.choose()
        choice.tell(option, 2.0 if option else 1.0)
    options = []
    for _ in range(60):
        options.append(choice.choose())
        choice.tell(options[-1], 0.5 if options[-1] else 1.0)
    assert options.index(1) < 40 and options[options.index(1) + 1] == 1
    assert options.count(0) < 40


def test_an_option_that_becomes_slower_is_left() -> None:
    choice = AdaptiveChoice(trials=3)
    for _ in range(20):
        option = choice.choose()
        choice.tell(option, 1.0 if option else 2.0)
    for _ in range(3):
        option = choice.choose()
        choice.tell(option, 3.0 if option else 2.0)
    assert choice.choose() == 0
