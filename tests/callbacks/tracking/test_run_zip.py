"""What needs no run on Weights & Biases: dashboards, zips of run folders, and how tracking is written in a config."""

import json
import math
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import RandomEnv
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext.callbacks.tracking.dashboard import Dashboard, dashboard
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.tracking.tracker import TIMESTEPS
from sb3_ext.common.options import read_switch
from sb3_ext.runs.run_zip import download_run, unpack_run, zip_run


def ranges(model, *names):
    layout = dashboard({TIMESTEPS, *names}, model)
    assert isinstance(layout, Dashboard)
    panels = {panel.metrics: panel for section in layout.sections for panel in section.panels}
    return {name: (panels[(name,)].low, panels[(name,)].high) for name in names}


def test_ranges_of_the_dashboard_come_from_the_spaces():
    box = spaces.Box(np.array([-1, -3], np.float32), np.array([2, 2], np.float32))
    observations = spaces.Box(0.0, 5.0, (3,), np.float32)
    names = ("policy/action_mean", "env/obs_mean", "policy/entropy", "train/clip_fraction", "rollout/ep_rew_mean")
    continuous = PPO("MlpPolicy", DummyVecEnv([lambda: RandomEnv(observations, box)]), device="cpu")
    assert ranges(continuous, *names) == {
        "policy/action_mean": (-3.0, 2.0),
        "env/obs_mean": (0.0, 5.0),
        "policy/entropy": (None, None),
        "train/clip_fraction": (0.0, 1.0),
        "rollout/ep_rew_mean": (None, None),
    }
    discrete = PPO("MlpPolicy", DummyVecEnv([lambda: RandomEnv(observations, spaces.Discrete(3))]), device="cpu")
    assert ranges(discrete, "policy/entropy")["policy/entropy"] == (0.0, pytest.approx(math.log(3)))
    assert ranges(discrete, "policy/action_mean")["policy/action_mean"] == (0.0, 2.0)


def test_panels_are_sorted_by_what_they_tell():
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1"), device="cpu")
    losses = [f"train/scaled_{loss}_loss" for loss in ("policy", "value", "entropy")]
    names = [
        "own/number",
        "video/agent",
        "time/iterations",
        "eval/step",
        "eval/mean_reward",
        "rollout/ep_rew_mean",
        *losses,
    ]
    layout = dashboard(names, model, env_id="CartPole-v1")
    assert layout.title == "ppo on CartPole-v1"
    sections = {section.title: section for section in layout.sections}
    assert list(sections) == ["Main curves", "Rollouts", "Evaluation", "Updates", "Time", "Videos", "own"]
    assert [panel.metrics[0] for panel in sections["Main curves"].panels] == ["rollout/ep_rew_mean", "eval/mean_reward"]
    assert [set(panel.metrics) for panel in sections["Updates"].panels] == [set(losses)]
    assert [panel.x for panel in sections["Evaluation"].panels] == ["eval/step"]
    assert sections["Videos"].panels[0].kind == "media"


@pytest.fixture
def zipped(tmp_path):
    run_folder = tmp_path / "there" / "CartPole-v1_1"
    (run_folder / "wandb").mkdir(parents=True)
    (run_folder / "wandb" / "debug.log").write_text("not part of the run")
    (run_folder / "model.zip").write_bytes(b"weights")
    (run_folder / "large.pkl").write_bytes(bytes(2_000_000))
    run_file = {"id": "abc", "algo": "ppo", "folder": "CartPole-v1_1"}
    (run_folder / "tracking.json").write_text(json.dumps(run_file))
    target = tmp_path / "run.zip"
    assert zip_run(run_folder, target, max_mb=1) == ["large.pkl (2.0 MB)"]
    return target


def test_the_zip_of_a_run_says_what_is_not_in_it(zipped):
    with zipfile.ZipFile(zipped) as archive:
        assert set(archive.namelist()) == {"model.zip", "tracking.json", "left_out.txt"}


def test_an_old_run_comes_back_beside_others_of_the_same_name(zipped, tmp_path):
    taken = tmp_path / "logs" / "ppo" / "CartPole-v1_1"
    taken.mkdir(parents=True)
    with pytest.warns(UserWarning, match="large.pkl"):
        folder = unpack_run(zipped, tmp_path / "logs")
    assert folder == tmp_path / "logs" / "ppo" / "CartPole-v1_2"
    assert (folder / "model.zip").read_bytes() == b"weights"
    assert not list(taken.iterdir())


def make_zip(path, algo="ppo", folder="CartPole-v1_1", **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tracking.json", json.dumps({"algo": algo, "folder": folder}))
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "name", ["..", "../up", "/etc", ".", "", " ", "C:\\x", "C:x", "a\\b", "a/b", "a\x1b[2J", None, 7]
)
@pytest.mark.parametrize("key", ["algo", "folder"])
def test_a_downloaded_run_can_not_choose_a_folder_outside(tmp_path, key, name):
    zipped = make_zip(tmp_path / "run.zip", **{key: name, "rl_zoo3/enjoy.py": "print('gotcha')"})
    with pytest.raises(ValueError, match="plain folder name"):
        unpack_run(zipped, tmp_path / "logs")
    assert everything_in(tmp_path) == ["run.zip"]


@pytest.mark.parametrize("name", ["../up.py", "/up.py", "a/../../up.py", "C:\\up.py", "a//up.py"])
def test_a_downloaded_run_has_plain_file_names_only(tmp_path, name):
    with pytest.raises(ValueError, match="must be plain"):
        unpack_run(make_zip(tmp_path / "run.zip", **{name: "print('gotcha')"}), tmp_path / "logs")
    assert everything_in(tmp_path) == ["run.zip"]


@pytest.mark.parametrize("files", [{"zeros": bytes(2_000_000)}, {f"{n}.txt": b"" for n in range(10_001)}])
def test_a_downloaded_run_does_not_fill_the_disk(tmp_path, files):
    with pytest.raises(ValueError, match="at most 10,000 files of 1 MB"):
        unpack_run(make_zip(tmp_path / "run.zip", **files), tmp_path / "logs", max_mb=1)
    assert everything_in(tmp_path) == ["run.zip"]


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, " " * 1_000_001])
def test_a_zip_that_is_not_a_run_is_refused(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("tracking.json", content)
    with pytest.raises(ValueError, match="is not a run folder"):
        unpack_run(tmp_path / "run.zip", tmp_path / "logs")


def test_links_are_neither_unpacked_nor_followed(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(make_zip(tmp_path / "run.zip", model="weights"), "a") as archive:
        archive.writestr(link, "/etc/passwd")
    (tmp_path / "logs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs" / "ppo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="outside"):
        unpack_run(tmp_path / "run.zip", tmp_path / "logs")
    (tmp_path / "logs" / "ppo").unlink()
    folder = unpack_run(tmp_path / "run.zip", tmp_path / "logs")
    assert everything_in(folder) == ["model", "tracking.json"] and not everything_in(tmp_path / "elsewhere")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_an_unpacked_run_is_readable_for_those_whom_the_umask_allows(tmp_path):
    zipped = make_zip(tmp_path / "run.zip", model="weights")
    before = os.umask(0o027)
    try:
        folder = unpack_run(zipped, tmp_path / "logs")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750 and stat.S_IMODE((folder / "model").stat().st_mode) == 0o640


def test_what_links_out_of_a_run_folder_is_not_packed(tmp_path):
    run_folder = tmp_path / "run"
    (run_folder / "inside").mkdir(parents=True)
    (run_folder / "inside" / "model.zip").write_bytes(b"weights")
    (run_folder / "model.zip").symlink_to("inside/model.zip")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    (run_folder / "key").symlink_to(tmp_path / "private" / "key")
    (run_folder / "folder").symlink_to(tmp_path / "private")
    left_out = zip_run(run_folder, tmp_path / "run.zip", max_mb=1)
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert set(archive.namelist()) == {"inside/model.zip", "model.zip", "left_out.txt"}
    assert "key (links to a file outside the run folder)" in left_out


def test_a_run_is_downloaded_only_when_it_is_not_here(zipped, tmp_path):
    asked = []

    class Server:
        """Stands in for W&B's: gives out the zip."""

        size = 1_000_000

        def artifact(self, name, type):
            asked.append((name, type))
            return self

        def download(self, root):
            Path(root, "run.zip").write_bytes(zipped.read_bytes())
            return root

    with pytest.warns(UserWarning, match="large.pkl"):
        first = download_run("https://wandb.ai/me/landers/runs/abc?nw=1", tmp_path / "logs", api=Server())
    assert first == download_run("me/landers/abc", tmp_path / "logs", api=Server())
    assert asked == [("me/landers/run-abc:latest", "run-folder")]
    with pytest.raises(ValueError, match="entity/project/run id"):
        download_run("abc", tmp_path / "logs")
    (first / "tracking.json").write_text("[]", encoding="utf-8")  # of somebody else, or broken
    with pytest.raises(ValueError, match=r"has 1.0 MB: at most 0.5 MB"):
        download_run("me/landers/abc", tmp_path / "logs", api=Server(), max_mb=0.5)


def read_tracking(raw):
    return read_switch(TrackingOptions, raw, "tracking")


def test_a_config_may_be_short_or_long(monkeypatch):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    assert read_tracking(None) is None and read_tracking(False) is None
    assert read_tracking(True) == TrackingOptions()
    long = read_tracking({"project": "p", "tags": "one", "gradients": False, "upload_mb": "1e3", "mode": "offline"})
    assert long == TrackingOptions(project="p", tags=("one",), gradients=0, upload_mb=1000.0, mode="offline")
    assert TrackingOptions().chosen_project == "sb3"
    monkeypatch.setenv("WANDB_PROJECT", "from-outside")
    assert TrackingOptions().chosen_project == "from-outside"
    assert TrackingOptions(project="p").make_callback(finish=False).options.project == "p"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"projekt": "p"}, "did you mean 'project'"),
        ({"mode": "ofline"}, "did you mean 'offline'"),
        ({"tags": [1]}, "tags: 1=1 must be a string"),
        ({"gradients": 0.5}, "must be a whole number"),
        ({"gradients": 1001}, "must be at most 1000"),
        ({"upload_mb": -1}, "must be at least 0"),
        ({"videos": "yes"}, "must be true or false"),
        ({"project": 3}, "must be a string"),
        ("landers", "must be true, false or a mapping"),
    ],
)
def test_mistakes_in_a_config_are_told(written, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read_tracking(written)
