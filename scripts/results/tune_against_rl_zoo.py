"""Compares ``sb3-ext tune`` with RL Zoo's ``-optimize`` at the same number of training steps.

python scripts/results/tune_against_rl_zoo.py --workers 2

Both start from the same untuned section (SB3's defaults, with 4 environments) and tune ``ppo_ext``, each in its own
search space. RL Zoo's study comes first. The timesteps that its trials trained are the budget of ours for all of its
trainings: search, finalists and the comparison with the start. Evaluations are counted separately. RL Zoo's choice is
its best trial. Ours is what the command writes, or the start if it writes nothing. Each choice is then trained with the
same code on fresh seeds.

Everything is kept in the folder: the same command continues where it was interrupted. A trial of RL Zoo takes about
17 seconds of one core on CartPole-v1; its minibatches may be as small as 4.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import optuna
import rl_zoo3.train  # noqa: F401  registers environments and our samplers
import yaml
from fresh_seeds import FreshSeeds, FreshTraining, write_json
from optuna.trial import TrialState
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER

from sb3_ext.metrics.statistics import estimate
from sb3_ext.tune.confirm import n_trainings
from sb3_ext.tune.judge import score_curve, steps_to_threshold
from sb3_ext.tune.record import curve_from, trial_record
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.storage import open_storage
from sb3_ext.zoo.trial_training import Curve

ALGO = "ppo_ext"
N_ENVS = 4
#: Timesteps of each training
TIMESTEPS = {"CartPole-v1": 25_000, "Acrobot-v1": 40_000}
SIDES = ("rl_zoo", "ours")
HEADER = (
    "environment | tuner | study | trials | training steps | evaluation episodes | final: median | final: IQM | "
    "area: median | area: IQM | seeds that reach the threshold"
)


class Study(NamedTuple):
    env_id: str
    side: str
    seed: int

    def __str__(self) -> str:
        return f"{self.env_id}, {self.side}, study {self.seed}"


class Comparison:
    """:param args: of the command line"""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._folder = Path(args.folder)

    def run(self) -> None:
        args = self._args
        for side in SIDES:  # ours needs to know how many steps RL Zoo took
            studies = [Study(env_id, side, seed) for env_id in args.envs for seed in range(1, args.studies + 1)]
            with ThreadPoolExecutor(args.workers) as pool:
                list(pool.map(self._search, studies))
        self._print_table(self._train_choices())

    def _path(self, study: Study) -> Path:
        return self._folder / f"{study.env_id}_{study.side}_{study.seed}"

    def _timesteps(self, env_id: str) -> int:
        return self._args.timesteps or TIMESTEPS.get(env_id, 50_000)

    def _search(self, study: Study) -> None:
        folder = self._path(study)
        if (folder / "choice.json").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        timesteps = self._timesteps(study.env_id)
        start = {"n_envs": N_ENVS, "n_timesteps": timesteps, "policy": "MlpPolicy", "n_steps": 512}
        (folder / "start.yml").write_text(yaml.safe_dump({study.env_id: start}), encoding="utf-8")
        print(f"{study}: searching, see {folder / 'output.log'}", flush=True)
        command = (self._rl_zoo_command if study.side == "rl_zoo" else self._our_command)(study, folder)
        with (folder / "output.log").open("a", encoding="utf-8") as output:
            output.write(f"{' '.join(command)}\n")
            output.flush()
            if subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode:
                raise SystemExit(f"{study} failed: see {output.name}")
        choice = (self._rl_zoo_choice if study.side == "rl_zoo" else self._our_choice)(folder, start)
        write_json(folder / "choice.json", choice)
        print(f"{study}: {choice['trials']} trials, {choice['steps']:,} training steps", flush=True)

    def _rl_zoo_command(self, study: Study, folder: Path) -> list[str]:
        args = self._args
        command = [sys.executable, "-m", "rl_zoo3.train", "--algo", ALGO, "--env", study.env_id, "-optimize"]
        command += ["--conf-file", str(folder / "start.yml"), "-f", str(folder), "--seed", str(study.seed)]
        command += ["--max-total-trials", str(args.trials), "-n", str(self._timesteps(study.env_id))]
        command += ["--sampler", "tpe", "--pruner", "median", "--n-evaluations", str(args.rl_zoo_evaluations)]
        command += ["--study-name", "study", "--storage", f"sqlite:///{folder / 'study.db'}"]
        return [*command, "--no-optim-plots", "--num-threads", "1"]

    def _rl_zoo_choice(self, folder: Path, start: dict[str, Any]) -> dict[str, Any]:
        study = optuna.load_study(study_name="study", storage=f"sqlite:///{folder / 'study.db'}")
        timesteps, n_evaluations = start["n_timesteps"], self._args.rl_zoo_evaluations
        interval = max(timesteps // n_evaluations // N_ENVS, 1) * N_ENVS
        steps = n_evaluated = 0
        for trial in study.trials:
            n_evaluated += len(trial.intermediate_values)
            if trial.state == TrialState.COMPLETE:
                rollout = trial.user_attrs["n_steps"] * N_ENVS
                steps += math.ceil(timesteps / rollout) * rollout
            else:  # it ended at its last evaluation
                steps += len(trial.intermediate_values) * interval
        section = {**start, **HYPERPARAMS_CONVERTER[ALGO](study.best_trial.params)}
        found = {"trial": study.best_trial.number, "value": study.best_trial.value, "section": section}
        return {**found, "trials": len(study.trials), "steps": steps, "episodes": n_evaluated * 5}

    def _our_command(self, study: Study, folder: Path) -> list[str]:
        args = self._args
        rl_zoo = json.loads((self._path(study._replace(side="rl_zoo")) / "choice.json").read_text(encoding="utf-8"))
        # The last trial starts within the budget and ends beyond it
        beyond = n_trainings(args.finalists, args.tune_seeds, args.fresh_seeds) + args.tune_seeds
        steps = max(rl_zoo["steps"] - beyond * self._timesteps(study.env_id), 1)
        print(f"{study}: {steps:,} of {rl_zoo['steps']:,} steps for the search", flush=True)
        command = [sys.executable, "-m", "sb3_ext", "tune", study.env_id, "--algo", ALGO, "--no-rl-zoo"]
        command += ["--conf-file", str(folder / "start.yml"), "-f", str(folder), "--seed", str(study.seed)]
        command += ["--steps", str(steps), "--study", "study", "--seeds", str(args.tune_seeds), "--workers", "1"]
        return [*command, "--finalists", str(args.finalists), "--fresh-seeds", str(args.fresh_seeds)]

    def _our_choice(self, folder: Path, start: dict[str, Any]) -> dict[str, Any]:
        of_study = folder / "tune" / "study"
        study = optuna.load_study(study_name="study", storage=open_storage(None, of_study))
        # Nothing is written if the start is best, or nothing is clearly better
        written = of_study / "tuned.yml"
        section = (
            next(iter(yaml.safe_load(written.read_text(encoding="utf-8")).values())) if written.exists() else start
        )
        records = [trial_record(trial) for trial in study.trials]
        at_end = [curve_from(raw) for name, raw in study.user_attrs.items() if name.startswith("fresh ")]
        curves = [*(curve for record in records for curve in record.curves), *at_end]
        episodes = sum(len(curve.points) for curve in curves) * StudySettings.model_fields["episodes"].default
        steps = sum(curve.steps for curve in curves)
        return {"section": section, "trials": len(records), "steps": steps, "episodes": episodes}

    def _train_choices(self) -> dict[Study, list[Curve]]:
        args, wanted = self._args, {}
        for env_id in args.envs:
            for side in SIDES:
                for seed in range(1, args.studies + 1):
                    study = Study(env_id, side, seed)
                    choice = json.loads((self._path(study) / "choice.json").read_text(encoding="utf-8"))
                    name, timesteps = f"{side} {seed}", self._timesteps(env_id)
                    for number in range(args.seeds):
                        wanted[study, number] = FreshTraining(name, env_id, choice["section"], number, timesteps)
        trainer = FreshSeeds(self._folder / "fresh", ALGO, args.workers, args.evaluations, args.episodes)
        curves = dict(zip(wanted, trainer.train(list(wanted.values())), strict=True))
        studies = dict.fromkeys(study for study, _ in wanted)
        return {study: [curves[study, number] for number in range(args.seeds)] for study in studies}

    def _print_table(self, curves: dict[Study, list[Curve]]) -> None:
        lines = [f"| {HEADER} |", "|---" * (HEADER.count("|") + 1) + "|"]
        for env_id in self._args.envs:
            for side in SIDES:
                studies = [study for study in curves if (study.env_id, study.side) == (env_id, side)]
                lines += [self._row([study], curves) for study in studies]
                lines += [self._row(studies, curves)] if len(studies) > 1 else []
        print("\n".join(lines))
        (self._folder / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _row(self, studies: list[Study], curves: dict[Study, list[Curve]]) -> str:
        first = studies[0]
        choices = [json.loads((self._path(study) / "choice.json").read_text(encoding="utf-8")) for study in studies]
        totals = [sum(choice[key] for choice in choices) for key in ("trials", "steps", "episodes")]
        settings = StudySettings(
            algo=ALGO, env=first.env_id, source={}, start={}, space={}, timesteps=self._timesteps(first.env_id)
        )
        final = [[curve.points[-1].score if curve.points else np.nan for curve in curves[s]] for s in studies]
        area = [[score_curve(settings, curve) for curve in curves[study]] for study in studies]
        threshold = gym.spec(first.env_id).reward_threshold
        reached = [steps_to_threshold(curve, threshold or np.inf) for study in studies for curve in curves[study]]
        n_reached = f"{sum(step is not None for step in reached)} of {len(reached)}"
        which = str(first.seed) if len(studies) == 1 else "**all**"
        cells = [first.env_id, first.side, which, *(f"{total:,}" for total in totals)]
        cells += [cell for scores in (final, area) for cell in (f"{np.nanmedian(scores):.1f}", _iqm(scores))]
        return f"| {' | '.join([*cells, n_reached])} |"


def _iqm(strata: list[list[float]]) -> str:
    value, low, high, _ = estimate(strata)
    return f"{value:.1f}" if low is None else f"{value:.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=list(TIMESTEPS), help="default: CartPole-v1 and Acrobot-v1")
    parser.add_argument("--studies", type=int, default=3, help="of each tuner, with the seeds 1, 2, … (default: 3)")
    parser.add_argument("--trials", type=int, default=60, help="of RL Zoo's study (default: 60)")
    parser.add_argument("--timesteps", type=int, help="of each training (default: by environment)")
    parser.add_argument("--rl-zoo-evaluations", type=int, default=5, help="RL Zoo's --n-evaluations (default: 5)")
    parser.add_argument("--tune-seeds", type=int, default=3, help="--seeds of sb3-ext tune (default: 3)")
    parser.add_argument("--finalists", type=int, default=3, help="of sb3-ext tune (default: 3)")
    parser.add_argument("--fresh-seeds", type=int, default=5, help="of sb3-ext tune (default: 5)")
    parser.add_argument("--seeds", type=int, default=10, help="fresh seeds of each choice (default: 10)")
    parser.add_argument("--evaluations", type=int, default=10, help="of a training on a fresh seed (default: 10)")
    parser.add_argument("--episodes", type=int, default=20, help="of each of them (default: 20)")
    parser.add_argument("--workers", type=int, default=2, help="studies or trainings at once (default: 2)")
    parser.add_argument("-f", "--folder", default="logs/tune_against_rl_zoo", help="where everything is kept")
    Comparison(parser.parse_args()).run()


if __name__ == "__main__":
    main()
