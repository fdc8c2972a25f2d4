"""``sb3-ext bench ENV``: finds the number and kind of environments that train fastest on this machine."""

from __future__ import annotations

import argparse
import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table

    from sb3_ext.runs.speed import Speed

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext bench LunarLander-v3
  sb3-ext bench Pong-v5 --n-envs 8 16 32 --seconds 5
  sb3-ext bench CartPole-v1 --algo reinforce
  sb3-ext bench CartPole-v1 --json                 for programs

Each line of the table is a real training of a few seconds, with the hyperparameters that rl_zoo3.train would use. The
product of n_envs and n_steps stays the same, so each update sees as many steps as in a training.
"""
#: ``ext:`` settings that are compared, by name
_KINDS: dict[str, dict[str, Any]] = {
    "native": {"native": True},
    "dummy": {"native": False, "vec_env": "dummy"},
    "multicore": {"native": False, "vec_env": "multicore"},
    "envpool": {"native": False, "vec_env": "envpool"},
    "subproc": {"native": False, "vec_env": "subproc"},
}


class Result(NamedTuple):
    kind: str
    n_envs: int
    n_steps: int
    speed: Speed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("env", metavar="ENV", help="environment id")
    parser.add_argument("--algo", default="ppo_ext", help="algorithm (default: ppo_ext)")
    parser.add_argument("--n-envs", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64], help="numbers to try")
    parser.add_argument(
        "--kinds", nargs="+", choices=list(_KINDS), help="kinds of environments (default: those available)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each training (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON: all results, the fastest first")


def run(args: argparse.Namespace) -> int:
    if args.seconds <= 0 or min(args.n_envs) < 1:
        raise ValueError("--seconds and --n-envs must be positive.")
    from rich.console import Console  # the help needs none of it

    # Only the table goes to stdout
    console, progress = Console(), Console(stderr=True, highlight=False)
    configured = _configured(args.algo, args.env)
    pairs = _pairs(args, configured)
    progress.print(f"{len(pairs)} trainings of about {args.seconds:g} seconds each, after a rollout to warm up")
    results: list[Result] = []
    try:
        for i, (kind, n_envs) in enumerate(pairs, 1):
            with progress.status(f"{kind}, n_envs {n_envs}"):
                results.append(_measure(args, kind, n_envs, configured))
            speed = results[-1].speed.steps_per_second
            progress.print(f"{i} of {len(pairs)}: {kind}, n_envs {n_envs}: {speed:,.0f} steps/s")
    except KeyboardInterrupt:
        progress.print("Interrupted. Results so far:")
    if not results:
        return 130
    if args.json:
        fastest = sorted(results, key=lambda result: -result.speed.steps_per_second)
        print(json.dumps([_as_dict(result) for result in fastest], indent=2))
        return 0
    console.print(_table(args.env, args.algo, results))
    best = max(results, key=lambda result: result.speed.steps_per_second)
    console.print(_advice(args, best, configured), markup=False, highlight=False)
    return 0


class Configured(NamedTuple):
    """What the hyperparameter file says, and the available kinds of environments."""

    n_envs: int
    n_steps: int
    kinds: list[str]


def _configured(algo: str, env_id: str) -> Configured:
    from sb3_ext.vec_env.cartpole import CartPoleVecEnv
    from sb3_ext.vec_env.envpool import why_not_envpool
    from sb3_ext.vec_env.native_atari import NativeAtariVecEnv
    from sb3_ext.zoo.models import make_model

    with make_model(algo, env_id, {}) as model:
        assert model.env is not None
        has_native = isinstance(model.env.unwrapped, (CartPoleVecEnv, NativeAtariVecEnv))
        # Without subproc, since multicore does the same with less
        kinds = ["native", "dummy", "multicore"] if has_native else ["dummy", "multicore"]
        kinds += [] if has_native or why_not_envpool(env_id) else ["envpool"]
        return Configured(model.n_envs, model.n_steps, kinds)


def _pairs(args: argparse.Namespace, configured: Configured) -> list[tuple[str, int]]:
    """Kinds and numbers of environments to try. A process for each of many would take gigabytes."""
    pairs = itertools.product(args.kinds or configured.kinds, sorted(set(args.n_envs)))
    return [(kind, n_envs) for kind, n_envs in pairs if kind != "subproc" or n_envs <= 16]


def _measure(args: argparse.Namespace, kind: str, n_envs: int, configured: Configured) -> Result:
    from sb3_ext.zoo.models import measure_training

    rollout = configured.n_envs * configured.n_steps
    measured = measure_training(args.algo, args.env, {"ext": _KINDS[kind]}, n_envs, rollout, args.seconds)
    return Result(kind, n_envs, *measured)


def _as_dict(result: Result) -> dict[str, Any]:
    speed = result.speed
    settings = {"kind": result.kind, "n_envs": result.n_envs, "n_steps": result.n_steps, "ext": _KINDS[result.kind]}
    parts = {"env": speed.env, "inference": speed.inference, "update": speed.update}
    return {**settings, "steps_per_second": speed.steps_per_second, "seconds_per_step": parts}


def _table(env_id: str, algo: str, results: list[Result]) -> Table:
    from rich.table import Table

    best = max(results, key=lambda result: result.speed.steps_per_second)
    table = Table(title=f"{env_id}, {algo}: microseconds per step, and steps per second of training")
    for column in ("environments", "n_envs", "n_steps", "env", "inference", "update", "steps/s"):
        table.add_column(column, justify="left" if column == "environments" else "right")
    for result in results:
        speed = result.speed
        parts = [f"{1e6 * part:.1f}" for part in (speed.env, speed.inference, speed.update)]
        cells = [result.kind, str(result.n_envs), str(result.n_steps), *parts, f"{speed.steps_per_second:,.0f}"]
        table.add_row(*cells, style="bold green" if result is best else None)
    return table


def _advice(args: argparse.Namespace, best: Result, configured: Configured) -> str:
    ext = ", ".join(f"{name}: {str(value).lower()}" for name, value in _KINDS[best.kind].items())
    lines = [f"\nFastest here, for the section {args.env} of {args.algo}'s hyperparameters (--conf-file):"]
    lines += [f"  n_envs: {best.n_envs}", f"  n_steps: {best.n_steps}", f"  ext: {{{ext}}}"]
    lines += [f"\nEach line is one pass of {args.seconds:g} seconds: differences below 10 % are noise."]
    if best.n_envs > configured.n_envs:
        lines.append(
            f"\nMore environments than the tuned {configured.n_envs}, with fewer n_steps each, can learn differently: "
            "compare a few seeds before you switch."
        )
    return "\n".join(lines)
