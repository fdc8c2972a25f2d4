"""Every mistake in a hyperparameter file or on the command line gets a short answer that names it."""

import contextlib
import io
import os
from pathlib import Path

import pytest
import wandb
from mistakes import MISTAKES, VALUES
from zoo_in_process import train

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.check import check_file


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """Models to continue with ``-i``, and files that are none."""
    folder = tmp_path_factory.mktemp("agents")
    PPOExt("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8).save(folder / "cartpole")
    REINFORCE("MlpPolicy", "CartPole-v1").save(folder / "reinforce")
    whole = (folder / "cartpole.zip").read_bytes()
    (folder / "truncated.zip").write_bytes(whole[: len(whole) // 2])
    (folder / "text.zip").write_text("not a zip")
    return folder


def answer(mistake, folder, agents):
    """What the command answers to the mistake, without what RL Zoo prints before."""
    (folder / "conf.yml").write_text(mistake.config, encoding="utf-8")
    for agent in agents.iterdir():
        os.link(agent, folder / agent.name)
    flags = [f"--algo {mistake.algo}" * bool(mistake.algo), f"--env {mistake.env}" * bool(mistake.env)]
    flags += ["" if "--conf-file" in mistake.flags else "--conf-file conf.yml", "--device cpu", mistake.flags]
    error = io.StringIO()
    try:
        with contextlib.redirect_stderr(error):
            train(" ".join(flags), folder)
    except UsageError as mistake_error:
        return str(mistake_error)
    except SystemExit as end:
        assert end.code == 2
        return error.getvalue()
    raise AssertionError("It was not found")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.algo}: {mistake.name}")
def test_a_mistake_is_answered_in_at_most_three_lines_that_name_it(mistake, tmp_path, agents):
    said = answer(mistake, tmp_path, agents)
    assert [word for word in mistake.says if word not in said] == [], said
    assert len(said.strip().splitlines()) <= 3
    assert not Path(tmp_path, "logs").exists()


@pytest.mark.parametrize("mistake", VALUES, ids=lambda mistake: f"{mistake.algo}: {mistake.name}")
def test_a_mistake_in_a_file_is_found_without_a_training(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("conf.yml").write_text(mistake.config, encoding="utf-8")
    said = "\n".join(str(p) for p in check_file("conf.yml", mistake.algo, log_folder="logs") if not p.is_warning)
    assert [word for word in mistake.says if word not in said] == [], said


def test_a_mistake_starts_no_run_on_wandb(tmp_path, monkeypatch):
    def init(**settings):
        raise AssertionError("a run was started")

    monkeypatch.setattr(wandb, "init", init)
    with pytest.raises(UsageError, match="gamma=7"):
        train("--algo ppo_ext --env CartPole-v1 --track -params gamma:7", tmp_path)


def test_stock_algorithms_keep_rl_zoos_answers(tmp_path):
    with pytest.raises(NameError):
        train("--algo ppo --env CartPole-v1 -params n_epochs:three", tmp_path)
