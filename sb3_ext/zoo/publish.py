"""Publishes a run on the Hugging Face Hub: everything is put into a folder first, checked, and uploaded as one commit.

The names of the files are those of RL Zoo's ``push_to_hub``, so RL Zoo's ``load_from_hub`` downloads them.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from huggingface_hub import HfApi, get_token
from huggingface_sb3 import EnvironmentName, ModelName

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.choose import ChosenModel
from sb3_ext.runs.agents.statistics import statistics_path
from sb3_ext.runs.play.evaluate import evaluate_and_record
from sb3_ext.runs.private_text import find_private, without_private, write_public_model
from sb3_ext.runs.record import RunRecord
from sb3_ext.zoo.load_run import load_run
from sb3_ext.zoo.model_card import make_card

__all__ = ["CARD", "check_login", "default_repo", "stage", "stage_space", "upload"]

CARD = "README.md"
#: Facts of run.json that only this machine needs
_LOCAL_FACTS = ("pid", "host", "process_started", "arguments", "command")


class Played(NamedTuple):
    """:param episodes: played for the score"""

    episodes: int = 20
    seed: int = 0
    video: bool = True


def check_login() -> None:
    """:raises UsageError: without a token nothing can be uploaded"""
    if not get_token():
        raise UsageError(
            "There is no token for the Hugging Face Hub. Log in with `hf auth login`, or set HF_TOKEN.\n"
            "--dry-run shows what would be published and needs none."
        )


def default_repo(run: RunRecord, wanted: str | None, is_dry: bool) -> str:
    """``owner/name``; the owner is the user of the token, the name RL Zoo's ``algo-env``."""
    owner, _, name = (wanted or "").rpartition("/")
    if not owner:
        owner = "me" if is_dry else _ask(lambda api: api.whoami())["name"]
    return f"{owner}/{name or ModelName(str(run.algo), EnvironmentName(str(run.args['env'])))}"


def stage(run: RunRecord, chosen: ChosenModel, folder: Path, repo: str, played: Played) -> dict[str, Path]:
    """
    Write all files that are to be published.

    :param folder: an empty one
    :return: the files by their name in the repository
    :raises UsageError: when a file has a password or a path of this machine
    """
    results = _play(run, chosen, folder, played)
    _write_agent(run, chosen, folder)
    _write_training(run, folder)
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    files = dict(_files(folder))
    (folder / CARD).write_text(without_private(make_card(run, repo, results, files)), encoding="utf-8")
    return _checked(folder)


def stage_space(page: str, run: RunRecord, folder: Path) -> dict[str, Path]:
    """A static Space that shows an episode in the inspector."""
    title = f"{run.algo} on {run.env_id}"
    about = {"title": title, "sdk": "static", "pinned": False, "tags": ["reinforcement-learning", "sb3-ext"]}
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / CARD).write_text(
        f"---\n{yaml.safe_dump(about)}---\n\nAn episode of {title}, step by step.\n", encoding="utf-8"
    )
    return _checked(folder)


def upload(folder: Path, repo: str, *, private: bool, kind: str = "model") -> str:
    """Upload the folder as one commit, and return its address."""

    def send(api: HfApi) -> str:
        sdk = "static" if kind == "space" else None
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True, space_sdk=sdk)
        api.upload_folder(repo_id=repo, repo_type=kind, folder_path=folder, commit_message="Publish with sb3-ext")
        return f"{api.endpoint}/{'spaces/' if kind == 'space' else ''}{repo}"

    return _ask(send)


def _ask(do: Any) -> Any:
    try:
        return do(HfApi())
    # Its client raises errors of whichever HTTP library it uses
    except Exception as error:
        reason = without_private(str(error)).strip().partition("\n")[0]
        raise UsageError(f"The Hugging Face Hub can't be used: {reason or type(error).__name__}") from error


def _play(run: RunRecord, chosen: ChosenModel, folder: Path, played: Played) -> dict[str, Any]:
    if played.video:
        # The score comes from other episodes: a replay of all of them would take an hour to watch
        loaded = load_run(run, chosen.keywords, played.seed, "rgb_array")
        try:
            evaluate_and_record(
                loaded.model, loaded.env, folder / "replay.mp4", steps=1, deterministic=loaded.deterministic
            )
        finally:
            loaded.env.close()
    loaded = load_run(run, chosen.keywords, played.seed)
    try:
        evaluated = evaluate_and_record(
            loaded.model, loaded.env, episodes=played.episodes, deterministic=loaded.deterministic
        )
    finally:
        loaded.env.close()
    result = {name: value for name, value in evaluated.as_dict().items() if name not in ("video", "no_video")}
    facts = {"algo": run.algo, "env": run.env_id, "model": chosen.name, "step": loaded.model.num_timesteps}
    return {
        **facts,
        "seed": played.seed,
        "deterministic": loaded.deterministic,
        "n_episodes": played.episodes,
        **result,
    }


def _write_agent(run: RunRecord, chosen: ChosenModel, folder: Path) -> None:
    assert run.params_folder is not None
    name = ModelName(str(run.algo), EnvironmentName(str(run.args["env"]))).filename
    try:
        write_public_model(chosen.path, folder / name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    statistics = statistics_path(chosen.path)
    statistics = statistics if statistics.is_file() else run.params_folder / "vecnormalize.pkl"
    if statistics.is_file() and run.config.get("normalize"):
        shutil.copyfile(statistics, folder / "vec_normalize.pkl")
    env_kwargs = {**(run.config.get("env_kwargs") or {}), **(run.args.get("env_kwargs") or {})}
    (folder / "env_kwargs.yml").write_text(without_private(yaml.safe_dump(env_kwargs)), encoding="utf-8")
    for path in (run.params_folder / "config.yml", run.params_folder / "args.yml"):
        (folder / path.name).write_text(without_private(path.read_text(encoding="utf-8")), encoding="utf-8")


def _write_training(run: RunRecord, folder: Path) -> None:
    with zipfile.ZipFile(folder / "train_eval_metrics.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (
            *run.folder.glob("*.monitor.csv"),
            *run.folder.glob("evaluations.npz"),
            *run.folder.glob("progress.csv"),
        ):
            archive.write(path, path.name)
    for path in (run.folder / "report.md", run.folder / "alerts.json"):
        if path.is_file():
            (folder / path.name).write_text(without_private(path.read_text(encoding="utf-8")), encoding="utf-8")
    facts = {name: value for name, value in run.training.items() if name not in _LOCAL_FACTS}
    (folder / "run.json").write_text(without_private(json.dumps(facts, indent=2) + "\n"), encoding="utf-8")
    for plot in sorted(run.folder.glob("plots/*.png")):
        (folder / "plots").mkdir(exist_ok=True)
        shutil.copyfile(plot, folder / "plots" / plot.name)


def _checked(folder: Path) -> dict[str, Path]:
    for name, path in _files(folder):
        found = find_private(path)
        if found is not None:
            raise UsageError(f"Nothing was published: {name} has {found}.")
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path
