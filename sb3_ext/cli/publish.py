"""``sb3-ext publish RUN``: puts an agent, its report and its card on the Hugging Face Hub."""

import argparse
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sb3_ext.cli.run_argument import add_run
from sb3_ext.cli.whole_number import seed_number, whole_number
from sb3_ext.common.clean_text import printable, say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.describe import shown_size

if TYPE_CHECKING:
    from sb3_ext.runs.record import RunRecord

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext publish @best:CartPole-v1 --dry-run            shows the card and the files, uploads nothing
  sb3-ext publish @best:CartPole-v1                      to <you>/ppo_ext-CartPole-v1
  sb3-ext publish logs/ppo_ext/Pong-v5_1@final --repo team/pong --private
  sb3-ext publish @last --space                          also a page on which people scrub through an episode
  sb3-ext publish @last --dry-run -o pong/               keeps the files

Log in first: `hf auth login`, or HF_TOKEN. Passwords, tokens and paths of this machine are removed; if one is left in a
file, nothing is uploaded. Everything arrives as one commit. Others load the agent with RL Zoo's load_from_hub.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--repo", metavar="[OWNER/]NAME", help="repository (default: <you>/<algo>-<env>)")
    parser.add_argument("--private", action="store_true", help="create the repository as a private one")
    parser.add_argument("--dry-run", action="store_true", help="show the card and the files, upload nothing")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="keep the files in this new folder")
    parser.add_argument("--episodes", type=whole_number, default=20, help="episodes for the score (default: 20)")
    parser.add_argument("--seed", type=seed_number, default=0, help="of these episodes (default: 0)")
    parser.add_argument("--video", action=argparse.BooleanOptionalAction, default=True, help="a replay (default: yes)")
    parser.add_argument("--space", action="store_true", help="also publish an episode in the inspector, as a Space")


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.agents.choose import describe_model, find_model
    from sb3_ext.zoo.load_run import check_is_zoo_run

    record, chosen = find_model(args.run, args.log_folder)
    check_is_zoo_run(record)
    from sb3_ext.zoo.publish import CARD, Played, check_login, default_repo, stage, stage_space, upload

    if args.output is not None and Path(args.output).exists():
        raise UsageError(f"-o {args.output}: it exists already. Choose a new folder.")
    if not args.dry_run:
        check_login()
    repo = default_repo(record, args.repo, args.dry_run)
    say(f"Playing {describe_model(chosen.path)}")
    with ExitStack() as stack:
        folder, space = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        files = stage(record, chosen, folder, repo, Played(args.episodes, args.seed, args.video))
        if args.space:
            stage_space(_page(args, record, chosen.name), record, space)
        if args.dry_run:
            print(printable(files[CARD].read_text(encoding="utf-8")))
            _list(repo, files)
        else:
            say(f"Uploading {len(files)} files to {repo}")
            say(upload(folder, repo, private=args.private))
            if args.space:
                say(upload(space, f"{repo}-inspector", private=args.private, kind="space"))
        if args.output is not None:
            _keep(folder, Path(args.output))
    return 0


def _list(repo: str, files: Mapping[str, Path]) -> None:
    print(f"Would be uploaded to {repo}:")
    for name, path in files.items():
        print(f"  {shown_size(path.stat().st_size):>8}  {name}")


def _keep(folder: Path, target: Path) -> None:
    import shutil

    shutil.copytree(folder, target)
    say(f"Kept in {target}")


def _page(args: argparse.Namespace, record: "RunRecord", model: str) -> str:
    from sb3_ext.inspect.episode import Wanted, play_for_page
    from sb3_ext.inspect.page import make_page

    return make_page({"episodes": [list(play_for_page(record, Wanted(model, args.seed)))]})
