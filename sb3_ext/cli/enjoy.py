"""``sb3-ext enjoy RUN``: plays the agent of a run, by default its best model."""

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sb3_ext.cli.run_argument import add_run
from sb3_ext.cli.whole_number import whole_number
from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.command_line import add_options, run_command, typed_words

if TYPE_CHECKING:
    from sb3_ext.runs.record import RunRecord

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1                     the best model, in a window
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1 --final             the model of the end of training
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1 --load-checkpoint 20000 --stochastic -n 5000
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1 --record            writes a video and scores into the run folder
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1 --json --episodes 100           only scores, for programs

A model contains a pickle: playing it runs code from whoever made it. Only play runs from people you trust.
"""
#: RL Zoo's options that the run answers
_ANSWERED = ("algo", "env", "folder", "exp_id")
#: RL Zoo's options that choose a model
_MODELS = ("load_best", "load_checkpoint", "load_last_checkpoint")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sb3-ext enjoy RUN [options]"
    add_run(parser)
    parser.add_argument("--final", action="store_true", help="play the model of the end of training, not the best one")
    parser.add_argument("--record", action="store_true", help="write a video, and the scores as JSON; opens no window")
    parser.add_argument("-o", "--output", metavar="FILE", help="video to write (default: in the run folder's videos/)")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON; opens no window")
    parser.add_argument(
        "--episodes", type=whole_number, help="episodes to play (default: -n steps; with --record or --json, 5)"
    )
    add_options(parser.add_argument_group("options of RL Zoo"), "enjoy", without=_ANSWERED)


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.find_run import find_run
    from sb3_ext.runs.record import read_record
    from sb3_ext.zoo.load_run import check_is_zoo_run

    record = read_record(find_run(args.run, args.log_folder))
    check_is_zoo_run(record)
    choice, model = _choose_model(record, args)
    # Only JSON goes to stdout
    with redirect_stdout(sys.stderr if args.json else sys.stdout):
        say(f"Playing {_describe(model)}")
        if not args.record and not args.json and args.output is None:
            _choose_window(args)
            if args.episodes is None:
                _watch(record, args, choice)
                return 0
        result = _evaluate(record, args, choice)
    if args.json:
        print(json.dumps(result, indent=2))
    return 0


def _choose_model(record: "RunRecord", args: argparse.Namespace) -> tuple[dict[str, Any], Path]:
    """RL Zoo's arguments for the model that was asked for, by default the best or else the final one; and its file."""
    from sb3_ext.runs.agents.checkpoint import BEST, LAST, Checkpoint, find_checkpoints, step_name

    checkpoints = [checkpoint for checkpoint in find_checkpoints(record.folder) if checkpoint.kind == "step"]
    choice = {name: getattr(args, name) for name in _MODELS if name in args}
    if not choice and record.has_best_model and not args.final:
        choice = {"load_best": True}
    final = record.final_model or Path()
    if "load_checkpoint" in choice:
        path = Checkpoint(record.folder, step_name(choice["load_checkpoint"])).model
    elif "load_last_checkpoint" in choice:
        path = checkpoints[-1].model if checkpoints else Path()
    elif "load_best" in choice:
        path = Checkpoint(record.folder, BEST).model
    else:
        # A training that was killed has only the last one
        path = final if final.is_file() else Checkpoint(record.folder, LAST).model
    if not path.is_file():
        options = ["--load-best"] * record.has_best_model + ["--final"] * final.is_file()
        options += [f"--load-checkpoint {checkpoint.step}" for checkpoint in checkpoints]
        known = f"It has: {', '.join(options)}." if options else "It has no model at all."
        raise UsageError(f"{record.folder} does not have the model that you asked for.\n{known}")
    return choice, path


def _describe(model: Path) -> str:
    from sb3_ext.common.model_file import read_model_file
    from sb3_ext.runs.agents.checkpoint import Checkpoint

    try:
        steps = read_model_file(model).num_timesteps
    except ValueError as error:
        raise UsageError(str(error)) from None
    checkpoint = Checkpoint(model.parent, model.stem)
    metrics = checkpoint.read_record().get("metrics", {}) if checkpoint.record.is_file() else {}
    score = metrics.get("eval/mean_reward")
    return f"{model}: {steps:,} steps" + ("" if score is None else f", evaluated at {score:,.2f}")


def _choose_window(args: argparse.Namespace) -> None:
    if "no_render" not in args and not _has_display():
        say("There is no display, so there is no window. --record writes a video.")
        args.no_render = True


def _watch(record: "RunRecord", args: argparse.Namespace, choice: dict[str, Any]) -> None:
    from sb3_ext.zoo.load_run import placed

    packages = record.args.get("gym_packages")
    if packages and "gym_packages" not in args:
        args.gym_packages = list(packages)
    with placed(record) as at:
        run_command("enjoy", typed_words("enjoy", argparse.Namespace(**{**vars(args), **choice, **at})))


def _has_display() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _evaluate(record: "RunRecord", args: argparse.Namespace, choice: dict[str, Any]) -> dict[str, Any]:
    from sb3_ext.runs.files import write_json
    from sb3_ext.runs.play.evaluate import evaluate_and_record
    from sb3_ext.zoo.load_run import load_run

    records = args.record or args.output is not None
    seed = getattr(args, "seed", 0)
    in_window = not (records or args.json or "no_render" in args)
    render_mode = "rgb_array" if records else "human" if in_window else None
    loaded = load_run(record, choice, seed, render_mode)
    step = loaded.model.num_timesteps
    video = Path(args.output or record.folder / "videos" / f"enjoy-step-{step}.mp4") if records else None
    if video is not None and video.suffix != ".mp4":
        raise UsageError(f"-o {video}: a video's name must end with .mp4.")
    deterministic = "deterministic" in args or (loaded.deterministic and "stochastic" not in args)
    steps = getattr(args, "n_timesteps", None) if args.episodes is None else None
    length = {"episodes": args.episodes or 5} if steps is None else {"steps": steps}
    try:
        evaluated = evaluate_and_record(loaded.model, loaded.env, video, deterministic=deterministic, **length)
    finally:
        loaded.env.close()
    facts = {"run": str(record.folder), "algo": record.algo, "env": record.env_id, "step": step, "seed": seed}
    result = {**facts, "deterministic": deterministic, **evaluated.as_dict()}
    scores = evaluated.scores
    n_episodes = len(scores.rewards)
    say(f"{n_episodes} episode{'s' * (n_episodes != 1)}: mean reward {scores.mean:,.2f} +/- {scores.std:,.2f}")
    if evaluated.no_video is not None:
        say(f"No video: {evaluated.no_video}")
    if video is not None:
        write_json(video.with_suffix(".json"), result)
        say(f"Written: {evaluated.video or ''} {video.with_suffix('.json')}".replace("  ", " "))
    return result
