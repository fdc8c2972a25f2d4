from types import SimpleNamespace

import pytest
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EveryNTimesteps

from sb3_ext import PPOExt
from sb3_ext.callbacks.base import RunCallback
from sb3_ext.common.step_callbacks import StepCallbacks, does_nothing


class Seen(BaseCallback):
    """Notes the variables of each step."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def _on_step(self):
        self.steps.append((self.n_calls, self.num_timesteps, sorted(self.locals), int(self.locals["n_steps"])))
        return True


class Idle(RunCallback):
    pass


class Counted(RunCallback):
    """Idle for SB3's loop, and counts how often it is asked."""

    n_asked = 0

    @does_nothing
    def on_step(self):
        self.n_asked += 1
        return super().on_step()


def train(callback, fast):
    model = PPOExt("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, fast=fast, seed=0)
    model.learn(96, callback=callback)
    return model


def test_callbacks_see_what_they_see_in_stock_loop():
    seen = {}
    for fast in (False, True):
        direct, nested, child = Seen(), Seen(), Seen()
        train([direct, Idle(), CallbackList([nested, Idle()]), EveryNTimesteps(3, child)], fast)
        seen[fast] = [direct.steps, nested.steps, child.steps]
    assert len(seen[True][0]) == 96 and len(seen[True][2]) == 32
    for plain, fast in zip(seen[False], seen[True], strict=True):
        assert [step[:2] + step[3:] for step in fast] == [step[:2] + step[3:] for step in plain]
        missing = set(plain[-1][2]) - set(fast[-1][2])
        # SB3's own loop has these besides what its documentation lists
        assert missing <= {"idx", "info", "done", "terminal_obs", "terminal_value", "use_masking"}


def test_idle_callbacks_are_not_asked_and_count_all_steps():
    first, second = Counted(), Counted()
    callbacks = CallbackList([first, CallbackList([second])])
    train(callbacks, fast=True)
    assert first.n_asked == 96  # for all: it looks for an interrupt
    assert second.n_asked == 0
    assert second.n_calls == callbacks.n_calls == 96
    assert second.num_timesteps == callbacks.num_timesteps == 96


def test_counts_are_right_when_a_rollout_is_interrupted():
    class Ends(BaseCallback):
        def _on_step(self):
            return self.n_calls < 40

    first, second = Counted(), Counted()
    train([first, second, Ends()], fast=True)
    assert first.n_calls == second.n_calls == second.num_timesteps == 40


def test_all_are_called_at_the_step_that_ends_the_training():
    class Ends(BaseCallback):
        def _on_step(self):
            return False

    later = Seen()
    train([Ends(), later], fast=True)
    assert len(later.steps) == 1


@pytest.mark.parametrize("own", ["locals", "update_locals", "update_child_locals"])
def test_a_callback_with_variables_of_its_own_gets_them(own):
    def update(self, variables):
        self.got = dict(variables)

    callback = type("Own", (Seen,), {} if own == "locals" else {own: update})()
    top = CallbackList([callback])
    callback.model = top.model = SimpleNamespace(num_timesteps=1)
    top.locals = {"n_steps": 7}
    callback.locals = {"n_steps": 0} if own == "locals" else top.locals
    StepCallbacks(top).on_step()
    assert callback.locals["n_steps"] == 7 if own == "locals" else callback.got == {"n_steps": 7}
