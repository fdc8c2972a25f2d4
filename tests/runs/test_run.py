"""Who hears of the end of a training, when, and in which order things are done then."""

import gc
import weakref

import pytest
from conftest import RandomEnv
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EveryNTimesteps

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.runs.run import Phase, Run

pytestmark = pytest.mark.filterwarnings("ignore:rich is experimental")
STEPS = 32
BOX, DISCRETE = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2)


class Joins(RunCallback):
    """Notes what happens in a training."""

    def __init__(self, events, name="", do=lambda: None):
        super().__init__()
        self.events, self.name, self._do = events, name, do

    def _on_training_start(self):
        self.events.append(f"{self.name}starts")
        for phase in reversed(Phase):
            self.run.at_end(phase, lambda phase=phase: self.note(phase))

    def note(self, phase):
        self.events.append(f"{self.name}{phase.name} {type(self.run.error).__name__}")
        if phase is Phase.CHECKPOINT:
            self._do()


class User(BaseCallback):
    """A callback that knows of no run."""

    def __init__(self, events, error=None):
        super().__init__()
        self._events, self._error = events, error

    def _on_step(self):
        if self._error is not None:
            raise self._error
        return True

    def _on_training_end(self):
        self._events.append("user is told")


def make_model(algorithm=PPO):
    settings = {"n_steps": 16, "batch_size": 16} if algorithm is PPO else {"learning_starts": 100, "buffer_size": 100}
    return algorithm("MlpPolicy", RandomEnv(BOX, DISCRETE), device="cpu", policy_kwargs={"net_arch": [4]}, **settings)


def phases(error="NoneType", without=(Phase.FINAL_MODEL,)):
    return [f"{phase.name} {error}" for phase in Phase if phase not in without]


WAYS = {
    "alone": lambda joins, user: (joins, {}),
    "list": lambda joins, user: ([joins, user], {}),
    "last in a list": lambda joins, user: ([user, joins], {}),
    "lists in lists": lambda joins, user: (CallbackList([CallbackList([joins]), user]), {}),
    "on an event": lambda joins, user: ([EveryNTimesteps(8, joins), user], {}),
    "alone on an event": lambda joins, user: (EveryNTimesteps(8, joins), {}),
    "with a progress bar": lambda joins, user: ([joins, user], {"progress_bar": True}),
}


@pytest.mark.parametrize("algorithm", [PPO, DQN])
@pytest.mark.parametrize("way", WAYS)
def test_a_complete_training_ends_once_and_after_all_callbacks_were_told(way, algorithm):
    events = []
    callback, settings = WAYS[way](Joins(events), User(events))
    make_model(algorithm).learn(STEPS, callback=callback, **settings)
    user = [] if way in ("alone", "alone on an event") else ["user is told"]
    assert events == ["starts", "FINAL_MODEL NoneType", *user, *phases()]


def test_a_list_of_callbacks_stays_as_it_was():
    events = []
    callbacks = [Joins(events), User(events)]
    given = CallbackList(list(callbacks))
    make_model().learn(STEPS, callback=given)
    assert given.callbacks == callbacks and "on_training_end" not in vars(given)


def test_an_error_is_known_to_whoever_ends_the_run():
    events = []
    with pytest.raises(ValueError, match="no more"), Joins(events) as joins:
        make_model().learn(STEPS, callback=[joins, User(events, ValueError("no more"))])
    assert events == ["starts", *phases("ValueError")]
    assert (joins.run.facts.state, joins.run.facts.error) == ("failed", "ValueError: no more")


def test_rl_zoo_swallows_ctrl_c_and_tells_its_first_callback_of_the_end(tmp_path):
    events = []
    model = make_model()
    run = Run.prepare(model, folder=tmp_path)
    run.at_end(Phase.FINAL_MODEL, lambda: events.append("saved"))
    joins = Joins(events)
    with pytest.raises(KeyboardInterrupt):
        model.learn(STEPS, callback=[joins, User(events, KeyboardInterrupt())])
    joins.on_training_end()
    assert events == ["starts"]
    run.end()
    assert events == ["starts", "saved", "FINAL_MODEL KeyboardInterrupt", *phases("KeyboardInterrupt")]
    run.end(ValueError())
    assert len(events) == 3 + len(phases()) and joins.run is run and run.facts.state == "interrupted"


@pytest.mark.parametrize("as_list", [True, False])
def test_the_same_callbacks_in_the_next_training_are_in_a_new_run(as_list):
    joins = Joins([])
    callback = CallbackList([joins]) if as_list else joins
    model, runs = make_model(), []
    for _ in range(2):
        joins.events.clear()
        model.learn(STEPS, callback=callback, reset_num_timesteps=False)
        runs.append(joins.run)
        assert joins.events == ["starts", "FINAL_MODEL NoneType", *phases()]
    assert runs[0] is not runs[1] and [run.facts.steps for run in runs] == [STEPS, 2 * STEPS]


def test_a_training_that_nobody_ended_is_ended_by_the_next_one():
    events = []
    joins = Joins(events)
    with pytest.raises(ValueError):
        make_model().learn(STEPS, callback=[joins, User(events, ValueError())])
    abandoned = joins.run
    make_model().learn(STEPS, callback=joins)
    assert "another one was started" in abandoned.facts.error
    assert events.count("REPORT RuntimeError") == events.count("REPORT NoneType") == 1


def test_callbacks_of_a_training_do_each_phase_together():
    events = []
    make_model().learn(STEPS, callback=[Joins(events, "a "), Joins(events, "b ")])
    assert events[-4:] == [f"{name} {phase} NoneType" for phase in ("REPORT", "TRACKING") for name in "ab"]


def test_what_fails_at_the_end_is_a_warning_and_the_rest_is_done():
    def fails():
        raise OSError("disk full")

    events = []
    with pytest.warns(UserWarning, match="At the end of the training.*OSError: disk full"):
        make_model().learn(STEPS, callback=Joins(events, do=fails))
    assert events[-1] == "TRACKING NoneType"


def test_ctrl_c_at_the_end_hurries_the_rest_and_goes_on_up():
    def interrupts():
        raise KeyboardInterrupt

    events = []
    with pytest.raises(KeyboardInterrupt):
        make_model().learn(STEPS, callback=Joins(events, do=interrupts))
    assert events[-2:] == ["REPORT KeyboardInterrupt", "TRACKING KeyboardInterrupt"]


def test_a_final_model_that_can_not_be_saved_is_an_error():
    def fails():
        raise OSError("disk full")

    events = []
    model = make_model()
    Run.prepare(model).at_end(Phase.FINAL_MODEL, fails)
    with pytest.raises(OSError, match="disk full"):
        model.learn(STEPS, callback=[Joins(events), User(events)])
    assert events == ["starts", "FINAL_MODEL OSError", *phases("OSError")]


def test_a_training_that_failed_and_that_nobody_ended_does_not_stay_in_memory():
    model = make_model()
    with pytest.raises(ValueError):
        model.learn(STEPS, callback=[Joins([]), User([], ValueError())])
    freed = weakref.ref(model)
    del model
    gc.collect()
    assert freed() is None


@pytest.mark.parametrize(("known", "threshold"), [({}, 475), ({"threshold": 7}, 7)])
def test_the_threshold_is_that_of_the_environment_unless_one_was_given(known, threshold):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, device="cpu")
    run = Run.prepare(model, **known)
    model.learn(16, callback=Joins([]))
    assert (run.threshold, run.facts.threshold, run.facts.env_threshold) == (threshold, known.get("threshold"), 475)
