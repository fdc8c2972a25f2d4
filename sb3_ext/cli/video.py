"""``sb3-ext video RUN``: films the agent of a run, or its training progress, in 1080p."""

import argparse
import os
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sb3_ext.cli.run_argument import add_run
from sb3_ext.cli.whole_number import positive_number, seed_number, whole_number
from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError

if TYPE_CHECKING:
    from sb3_ext.runs.agents.choose import ChosenModel
    from sb3_ext.runs.play.film import Agent, Clip, Film
    from sb3_ext.runs.play.overlay import OverlayStyle
    from sb3_ext.runs.record import RunRecord

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext video @last                                     the best model, for an episode, into the run's videos/
  sb3-ext video @last@20000 -o film.mp4 --episodes 3      the model of this step
  sb3-ext video @last --montage                           all checkpoints, one after the other
  sb3-ext video @last --montage grid --seconds 20         all of them at once
  sb3-ext video @last -o agent.gif                        a small file for a README
  sb3-ext video @last --set position=top-left --set fields=score,action --set accent=#ff7b72

docs/videos.md lists what a style can set. A model contains a pickle: playing it runs code from whoever made it. Only
film runs from people you trust.
"""
_SECONDS, _GIF_SECONDS = 60.0, 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sb3-ext video RUN[@MODEL] [options]"
    add_run(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=".mp4, or .gif for only a GIF (default: in the run folder's videos/)"
    )
    parser.add_argument("--gif", action="store_true", help="write a small GIF beside the film too")
    parser.add_argument(
        "--montage",
        nargs="?",
        const="sequence",
        choices=("sequence", "grid"),
        help="show training progress: the run's models one after the other (sequence, the default) or at once (grid)",
    )
    parser.add_argument("--clips", type=whole_number, default=6, help="most models of a montage (default: 6)")
    parser.add_argument("--style", metavar="FILE.yml", help="how it looks: options of the overlay")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one of these options")
    limits = parser.add_argument_group("what is played")
    limits.add_argument(
        "--seconds",
        type=positive_number,
        help=f"longest film, without the title (default: {_SECONDS:g}; only a GIF: {_GIF_SECONDS:g})",
    )
    limits.add_argument("--episodes", type=whole_number, default=1, help="most episodes per model (default: 1)")
    limits.add_argument("--seed", type=seed_number, default=0, help="of environments and actions (default: 0)")
    limits.add_argument("--fps", type=positive_number, help="steps per second (default: real time)")
    choice = limits.add_mutually_exclusive_group()
    choice.add_argument("--stochastic", action="store_true", help="sample actions as in training")
    choice.add_argument("--deterministic", action="store_true", help="take the most likely actions")


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.agents.choose import choose_model, describe_model
    from sb3_ext.runs.find_run import find_run, split_checkpoint
    from sb3_ext.runs.record import read_record
    from sb3_ext.zoo.load_run import check_is_zoo_run

    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a window, and without looking for one
    style = _read_style(args)
    run_name, model_name = split_checkpoint(args.run)
    if args.montage is not None and model_name is not None:
        raise UsageError(f"--montage shows several models, so it can't show @{model_name} only: leave one of them out.")
    record = read_record(find_run(run_name, args.log_folder))
    check_is_zoo_run(record)
    if args.montage is None:
        chosen = choose_model(record, model_name)
        say(f"Filming {describe_model(chosen.path)}")
        clips = [_clip(record, chosen, args)]
    else:
        clips = _choose_clips(record, args)
        say(f"Filming the models of {', '.join(f'{clip.step:,}' for clip in clips)} steps")
    mp4, gif = _outputs(args, record.folder / "videos", clips)
    _write(_describe(record, clips, style, args), mp4, gif)
    return 0


def _read_style(args: argparse.Namespace) -> "OverlayStyle":
    from sb3_ext.common.options import read_options
    from sb3_ext.runs.plain_files import read_plain
    from sb3_ext.runs.play.overlay import OverlayStyle

    problems: list[str] = []
    if args.style is not None and not Path(args.style).is_file():
        raise UsageError(f"--style {args.style}: there is no such file.")
    given = {} if args.style is None else read_plain(Path(args.style), dict, problems) or {}
    if problems:
        raise UsageError(f"--style: {problems[0]}")
    for word in args.set:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--set {word}: expected KEY=VALUE, such as font_size=60.")
        given[name] = value.split(",") if name == "fields" else value
    try:
        return read_options(OverlayStyle, given, "style")
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _clip(record: "RunRecord", chosen: "ChosenModel", args: argparse.Namespace) -> "Clip":
    from sb3_ext.common.model_file import read_model_file
    from sb3_ext.runs.play.film import Clip

    step = read_model_file(chosen.path).num_timesteps
    score = _score(record, step)
    evaluated = () if score is None else (f"evaluated at {score}",)
    return Clip(_loader(record, chosen.keywords, args), step, (f"{record.algo}, {step:,} steps", *evaluated))


def _score(record: "RunRecord", step: int) -> str | None:
    """Of the evaluation of the model of this step."""
    result = next((result for result in record.evaluations if result.step == step), None)
    if result is None:
        return None
    numbers = [number for number in (result.mean, result.std) if number is not None]
    digits = 0 if all(map(float.is_integer, numbers)) else 1 if abs(result.mean) >= 10 else 2
    return " ± ".join(f"{number:,.{digits}f}" for number in numbers)


def _loader(record: "RunRecord", model: dict[str, Any], args: argparse.Namespace) -> Callable[[], "Agent"]:
    from sb3_ext.runs.play.frames import CantRender
    from sb3_ext.zoo.load_run import load_run

    def load() -> "Agent":
        try:
            loaded = load_run(record, model, args.seed, "rgb_array")
        except UsageError:
            raise
        # Environments raise anything when they can't be rendered
        except Exception as error:
            load_run(record, model, args.seed).env.close()  # or there is another reason
            raise CantRender(f"{type(error).__name__}: {error}") from error
        return loaded._replace(deterministic=args.deterministic or (loaded.deterministic and not args.stochastic))

    return load


def _choose_clips(record: "RunRecord", args: argparse.Namespace) -> list["Clip"]:
    """Models of different steps, as evenly spaced as they are: the first, the last, and some between them."""
    from sb3_ext.runs.agents.choose import choose_model, describe_model, model_names

    found = {}
    for name in model_names(record):
        chosen = choose_model(record, name)
        describe_model(chosen.path)  # a broken file is named
        clip = _clip(record, chosen, args)
        found[clip.step] = clip
    if len(found) < 2:
        has = f"only one model, of {min(found):,} steps" if found else "no model at all"
        raise UsageError(
            f"{record.folder} has {has}: a montage needs several. To save more: sb3-ext train --save-freq 10000 …"
        )
    first, last = min(found), max(found)
    wanted = [first + (last - first) * index / max(args.clips - 1, 1) for index in range(max(args.clips, 2))]
    nearest = {min(found, key=lambda step: abs(step - place)) for place in wanted}
    return [found[step] for step in sorted(nearest)]


def _outputs(args: argparse.Namespace, folder: Path, clips: list["Clip"]) -> tuple[Path | None, Path | None]:
    """The film and the GIF, each if it is wanted."""
    name = f"film-step-{clips[0].step}.mp4" if args.montage is None else f"montage-{args.montage}.mp4"
    path = Path(args.output or folder / name)
    if path.suffix == ".gif":
        return None, path
    if path.suffix != ".mp4":
        raise UsageError(f"-o {path}: a film's name must end with .mp4 or .gif.")
    return path, path.with_suffix(".gif") if args.gif else None


def _describe(record: "RunRecord", clips: list["Clip"], style: "OverlayStyle", args: argparse.Namespace) -> "Film":
    from sb3_ext.runs.play.film import Film

    first, last = clips[0].step, clips[-1].step
    steps = f"{last:,}" if len(clips) == 1 else f"{first:,} to {last:,}"
    scores = [
        score.split(" ± ")[0] if len(clips) > 1 else score for step in (first, last) if (score := _score(record, step))
    ]
    return Film(
        heading=str(record.env_id),
        lines=(f"{record.algo}, {steps} steps of training",),
        highlight=f"Score {' → '.join(dict.fromkeys(scores))}" if scores else "",
        clips=clips,
        is_grid=args.montage == "grid",
        seconds=args.seconds or _SECONDS,
        episodes=args.episodes,
        seed=args.seed,
        fps=args.fps,
        style=style,
    )


def _write(job: "Film", mp4: Path | None, gif: Path | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from sb3_ext.runs.describe import shown_size
    from sb3_ext.runs.play.film import film
    from sb3_ext.runs.play.frames import CantRender
    from sb3_ext.runs.play.gif import write_gif

    if mp4 is None and job.seconds == _SECONDS:
        job = replace(job, seconds=_GIF_SECONDS)
    console = Console(stderr=True)
    columns = (
        TextColumn("Filming"),
        BarColumn(),
        TextColumn("{task.completed:.1f} s of the film"),
        TimeElapsedColumn(),
    )
    with nullcontext() if mp4 is not None else tempfile.TemporaryDirectory() as temporary:
        path = mp4 or Path(str(temporary), "film.mp4")
        try:
            with Progress(
                *columns, console=console, transient=True, refresh_per_second=4, disable=not console.is_terminal
            ) as bar:
                task = bar.add_task("", total=job.longest)
                seconds = film(job, path, lambda seconds: bar.update(task, completed=seconds))
        except CantRender as error:
            raise UsageError(f"{job.heading} can't be filmed: {error}") from None
        if gif is not None:
            write_gif(path, gif)
    for written in filter(None, (mp4, gif)):
        say(f"Written: {written} ({seconds:.1f} s, {shown_size(written.stat().st_size)})")
