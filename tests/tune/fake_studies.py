"""Studies as ``sb3-ext tune`` stores them, without a training."""

import math

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from sb3_ext.tune.record import curve_to
from sb3_ext.zoo.trial_training import Curve, Point

START = {
    "policy": "MlpPolicy",
    "n_envs": 8,
    "n_timesteps": 50_000.0,
    "learning_rate": 0.03,
    "clip_range": 0.9,
    "gamma": 0.99,
}
SETTINGS = {
    "algo": "ppo_ext",
    "env": "CartPole-v1",
    "timesteps": 50_000,
    "seeds": 3,
    "objective": "auc",
    "quantile": 0.5,
    "seed": 0,
    "evaluations": 10,
    "episodes": 5,
    "threshold": 475.0,
    "space": {
        "algo": "ppo_ext",
        "env_id": "CartPole-v1",
        "keys": {
            "learning_rate": {"low": 1e-5, "high": 0.1, "log": True},
            "n_epochs": {"choices": [1, 5, 10, 20]},
        },
        "fixed": {},
    },
    "start": START,
    "source": {},
}
RESULT = {
    "start": {"scores": [20.5, 22.0, 19.1, 25.0, 21.0], "seeds": [400, 401, 402, 403, 404]},
    "best": {"trial": 7, "scores": [430.0, 441.5, 425.0, 455.0, 390.0], "seeds": [400, 401, 402, 403, 404]},
    "difference": [406.8, 390.2, 420.1],
    "probability": [1.0, 1.0, 1.0],
    "p_value": 1 / 252,
    "is_better": True,
    "written": "hyperparams/ppo_ext.yml",
}
DISTRIBUTIONS = {
    "learning_rate": FloatDistribution(1e-5, 0.1, log=True),
    "clip_range": FloatDistribution(0.1, 0.9),
    "n_steps": CategoricalDistribution([64, 128, 256, 512]),
    "gamma": FloatDistribution(0.9, 0.9999),
    "lr_schedule": CategoricalDistribution(["constant", "linear", None]),
    "n_epochs": IntDistribution(1, 20),
    "target_kl": FloatDistribution(0.003, 0.3, log=True),
    "index(n_epochs)": IntDistribution(0, 3),
    "log2(n_steps)": IntDistribution(4, 11),
    "1 - gamma": FloatDistribution(0.0001, 0.1, log=True),
    "gamma form": CategoricalDistribution(["constant", 1.0]),
    "target_kl form": CategoricalDistribution(["constant", None]),
}


def make_study(n_trials=0, name="bad-start", storage=None, pruned=True, **attributes):
    """The start, and trials of a sampler; ``target_kl`` is there only with a linear schedule."""
    study = optuna.create_study(study_name=name, direction="maximize", storage=storage)
    for key, value in {"settings": SETTINGS, **attributes}.items():
        study.set_user_attr(key, value)
    rng = np.random.default_rng(0)
    for number in range(n_trials):
        params = {
            "learning_rate": 0.03 if number == 0 else float(np.exp(rng.uniform(np.log(1e-5), np.log(0.1)))),
            "clip_range": 0.9 if number == 0 else float(rng.uniform(0.1, 0.9)),
            "n_steps": int(rng.choice([64, 128, 256, 512])),
            "gamma": 0.99 if number == 0 else float(rng.uniform(0.9, 0.9999)),
            "lr_schedule": [None, "constant", "linear"][rng.integers(3)],
            "n_epochs": int(rng.integers(1, 20)),
        }
        if params["lr_schedule"] == "linear":
            params["target_kl"] = float(np.exp(rng.uniform(np.log(0.003), np.log(0.3))))
        height = 500 * math.exp(-(math.log10(params["learning_rate"] / 0.001) ** 2)) * (1.1 - params["clip_range"])
        state = "pruned" if pruned and number and height < 60 else "complete"
        add_trial(study, params, state, height, "start" if number == 0 else ["tpe", "cmaes", "llm"][number % 3])
    return study


def add_trial(study, params, state="complete", height=100.0, proposed_by="tpe", error=None, **attributes):
    """A trial whose three curves rise to about ``height``; a pruned one has half of its first curve."""
    is_pruned = state == "pruned"
    curves = [make_curve(height * (1 + 0.1 * seed), 5 if is_pruned else 10) for seed in range(1 if is_pruned else 3)]
    if state == "failed":
        curves = [make_curve(height, 2)._replace(error=error)]
    user_attrs = {
        "owner": "host 1",
        "proposed_by": proposed_by,
        "section": {**START, **{name: value for name, value in params.items() if value is not None}},
        **{f"curve {seed}": curve_to(curve) for seed, curve in enumerate(curves)},
        **({} if error is None else {"error": error}),
        **attributes,
    }
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
    values = [point.score for curve in curves[:1] for point in curve.points]
    study.add_trial(
        create_trial(
            state=states[state],
            value=float(np.median([np.mean([point.score for point in curve.points]) for curve in curves]))
            if state == "complete"
            else None,
            params=params,
            distributions={name: DISTRIBUTIONS[name] for name in params},
            user_attrs=user_attrs,
            intermediate_values=dict(enumerate(values)),
        )
    )


def make_curve(height, n_points):
    points = [Point(5000 * (i + 1), height * (1 - math.exp(-(i + 1) / 3)), 2.0 * (i + 1)) for i in range(n_points)]
    return Curve(tuple(points), 5000 * n_points, 2.5 * n_points, is_stopped=n_points < 10)
