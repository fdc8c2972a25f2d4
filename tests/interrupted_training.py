"""A training with all kinds of callbacks, in one go or interrupted and resumed, and the states of the callbacks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    ConvertCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

from sb3_ext import PPOExt
from sb3_ext.callbacks import (
    Alerts,
    Checkpoints,
    EpisodeMetrics,
    Evaluation,
    LogFiles,
    Metrics,
    Report,
    SaveNormalization,
    Table,
    TrainingProgress,
    WarnObservationScale,
)
from sb3_ext.runs.callback_states import collect_states, continued_log_interval, restore_states
from sb3_ext.runs.rewind import log_positions, rewind_logs
from sb3_ext.runs.rows import RowStream

TOTAL, KILLED_AT, LOG_INTERVAL = 512, 192, 2
#: What depends on the clock, and differs between any two trainings
OF_THE_CLOCK = {"time/fps", "time/fps_now", "time/time_elapsed", "time/eta", "eval/time", "seconds", "fps_drop"}
OF_THE_CLOCK |= {"_seconds_a_step", "policy/dead_relus", "policy/prob_max"}


class Killed(Exception):
    pass


class CountEpisodes(BaseCallback):
    """A user's callback."""

    n_episodes = 0

    def _on_step(self):
        self.n_episodes += int(np.sum(self.locals["dones"]))
        return True

    def state(self):
        return {"episodes": self.n_episodes}

    def restore(self, state):
        self.n_episodes = state["episodes"]


class Resume(BaseCallback):
    """The first in the list: what a resumable training does at the start of a rollout."""

    def __init__(self, folder, states=None, kill_at=None):
        super().__init__()
        self.folder, self.states, self.kill_at = folder, states, kill_at
        self.bundle = self.final = None

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        top = self.locals["callback"]
        if self.states is not None:
            restore_states(top, self.states)
            self.states = None
        if self.model.num_timesteps == self.kill_at:
            self.bundle = pickle.dumps((collect_states(top), log_positions(self.folder, self.model.num_timesteps)))
            raise Killed

    def _on_training_end(self):
        self.final = collect_states(self.locals["callback"])


def make_callbacks(folder, eval_envs, resume):
    no_improvement = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1000)
    evaluation = {"every": 100, "episodes": 2, "stop": "plateau", "patience": 1000}
    rules = {"updates": {"metric": "time/n_updates", "above": 2}}
    return CallbackList(
        [
            resume,
            Evaluation(eval_envs[0], folder=folder, verbose=0, **evaluation),
            EvalCallback(eval_envs[1], None, no_improvement, 2, 40, log_path=str(folder / "stock"), verbose=0),
            StopTrainingOnMaxEpisodes(10_000),
            EveryNTimesteps(100, ConvertCallback(lambda *_: True)),
            CheckpointCallback(1000, str(folder)),
            EpisodeMetrics(),
            TrainingProgress(),
            SaveNormalization(),
            LogFiles(folder),
            Metrics(histograms=False, network=False, info=["episode.l"]),
            Table(),
            Alerts(folder, verbose=0, add=rules),
            Checkpoints(folder, every=150, table=False, video=False),
            Report(folder, verbose=0, plots=False),
            WarnObservationScale(),
            CountEpisodes(),
        ]
    )


def train(folder, interrupted):
    """
    :return: the final states of the callbacks. An interrupted training continues with the same model and the same
        environments to train in, so that only callbacks and files have to be restored
    """
    folder = Path(folder)
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = PPOExt("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=2, seed=0, device="cpu")
    resume = Resume(folder, kill_at=KILLED_AT if interrupted else None)
    try:
        _learn(folder, model, resume, TOTAL, log_interval=LOG_INTERVAL)
    except Killed as error:
        RowStream.of(model.logger).run.end(error)
        states, positions = pickle.loads(resume.bundle)
        _log_more(folder)
        rewind_logs(folder, positions)
        resume = Resume(folder, states)
        log_interval = continued_log_interval(model, states, LOG_INTERVAL)
        left = TOTAL - model.num_timesteps
        _learn(folder, model, resume, left, reset_num_timesteps=False, log_interval=log_interval)
    return resume.final


def _learn(folder, model, resume, steps, **kwargs):
    model.set_logger(configure(str(folder), ["stdout"]))
    eval_envs = [make_vec_env("CartPole-v1", 1, seed=seed) for seed in (1, 2)]
    model.learn(steps, callback=make_callbacks(folder, eval_envs, resume), **kwargs)


def _log_more(folder):
    """As a training that is killed some time after its last checkpoint."""
    csv, rows = folder / "progress.csv", folder / "progress.json"
    names = csv.read_text().partition("\n")[0].split(",")
    row = {"time/total_timesteps": KILLED_AT + 64, "rollout/ep_rew_mean": 7.0}
    with csv.open("a") as file:
        file.write(",".join(str(row.get(name, "")) for name in names) + "\n" + "," * (len(names) - 1) + "\n1,2")
    with rows.open("a") as file:
        file.write(json.dumps(row) + '\n{"train/loss": 1}\n{"time')


def comparable(state):
    """Without what depends on the clock."""
    if isinstance(state, dict):
        return {key: comparable(value) for key, value in state.items() if key not in OF_THE_CLOCK}
    if isinstance(state, list | tuple):
        return [comparable(value) for value in state]
    if isinstance(state, np.ndarray):
        return state.tolist()
    return "nan" if isinstance(state, float) and np.isnan(state) else state
