"""``sb3-ext enjoy RUN``: plays the agent of a run, by default its best model."""

import argparse
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sb3_ext.cli.display import has_display
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
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1@20000 --stochastic -n 5000       the model of this step
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1 --record            writes a video and scores into the run folder
  sb3-ext enjoy logs/ppo_ext/CartPole-v1_1 --json --episodes 100           only scores, for programs

A model contains a pickle: playing it runs code from whoever made it. Only play runs from people you trust.
"""
#: RL Zoo's options that the run answers
_ANSWERED = ("algo", "env", "folder", "exp_id")


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
    from sb3_ext.runs.agents.choose import choose_model, describe_model
    from sb3_ext.runs.find_run import find_run, split_checkpoint
    from sb3_ext.runs.record import read_record
    from sb3_ext.zoo.load_run import check_is_zoo_run

    run_name, model_name = split_checkpoint(args.run)
    record = read_record(find_run(run_name, args.log_folder))
    check_is_zoo_run(record)
    model, choice, _ = choose_model(record, model_name or _model_name(record, args))
    # Only JSON goes to stdout
    with redirect_stdout(sys.stderr if args.json else sys.stdout):
        say(f"Playing {describe_model(model)}")
        if not args.record and not args.json and args.output is None:
            _choose_window(args)
            if args.episodes is None:
                _watch(record, args, choice)
                return 0
        result = _evaluate(record, args, choice)
    if args.json:
        print(json.dumps(result, indent=2))
    return 0


def _model_name(record: "RunRecord", args: argparse.Namespace) -> str | None:
    """What was asked for, in words of :func:`~sb3_ext.runs.agents.choose.choose_model`."""
    from sb3_ext.runs.agents.checkpoint import find_checkpoints

    if "load_checkpoint" in args:
        return str(args.load_checkpoint)
    if "load_last_checkpoint" in args:
        steps = [checkpoint.step for checkpoint in find_checkpoints(record.folder) if checkpoint.kind == "step"]
        return str(max(steps, default=0))
    return "best" if "load_best" in args else "final" if args.final else None


def _choose_window(args: argparse.Namespace) -> None:
    if "no_render" not in args and not has_display():
        say("There is no display, so there is no window. --record writes a video.")
        args.no_render = True


def _watch(record: "RunRecord", args: argparse.Namespace, choice: dict[str, Any]) -> None:
    from sb3_ext.zoo.load_run import placed

    packages = record.args.get("gym_packages")
    if packages and "gym_packages" not in args:
        args.gym_packages = list(packages)
    with placed(record) as at:
        run_command("enjoy", typed_words("enjoy", argparse.Namespace(**{**vars(args), **choice, **at})))


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
