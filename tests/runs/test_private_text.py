"""What must not leave the machine is replaced in texts and found in files."""

import os
import zipfile
from pathlib import Path

import pytest
from stable_baselines3 import PPO

from sb3_ext.runs.private_text import find_private, without_private, write_public_model

HOME = os.path.expanduser("~")


@pytest.mark.parametrize(
    ("text", "public"),
    [
        (f"resume {HOME}/runs/logs/ppo_ext/CartPole-v1_1 now", "resume CartPole-v1_1 now"),
        ("log_folder: /tmp/some/place/logs\n", "log_folder: logs\n"),
        (r"C:\Users\me\logs\run", "run"),
        ("rollout/ep_rew_mean and train/loss", "rollout/ep_rew_mean and train/loss"),
        ("https://github.com/DLR-RM/stable-baselines3", "https://github.com/DLR-RM/stable-baselines3"),
        ("logs/ppo_ext/CartPole-v1_1", "logs/ppo_ext/CartPole-v1_1"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("token hf_abcdefghijkl", "token ***"),
    ],
)
def test_paths_and_secrets_are_replaced_and_nothing_else(text, public):
    assert without_private(text) == public


def test_the_values_of_secret_variables_are_replaced(monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    assert without_private("key: correct-horse-battery") == "key: ***"


def test_a_secret_is_found_in_any_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    file, archive, clean = tmp_path / "a.bin", tmp_path / "b.zip", tmp_path / "c.txt"
    file.write_bytes(b"\xff\x00correct-horse-battery\xff")
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("inside.txt", f"in {HOME}/logs")
    clean.write_text("nothing")
    assert find_private(file) == "a password or token"
    assert find_private(archive) == f"the path {HOME}"
    assert find_private(clean) is None


def test_a_model_is_copied_without_attributes_that_have_a_path(tmp_path):
    def schedule(progress, folder=f"{HOME}/secret"):
        return 0.001 * progress

    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=schedule, n_steps=8, batch_size=8, device="cpu", seed=0)
    model.tensorboard_log = f"{HOME}/tensorboard"
    model.save(tmp_path / "model.zip")
    assert find_private(tmp_path / "model.zip") == f"the path {HOME}"
    write_public_model(tmp_path / "model.zip", tmp_path / "public.zip")
    assert find_private(tmp_path / "public.zip") is None
    loaded, observation = PPO.load(tmp_path / "public.zip"), model.observation_space.sample()
    assert loaded.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]


def test_a_model_that_needs_a_path_is_refused(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu")
    model.policy_kwargs = {"net_arch": [4], "note": Path(HOME, "secret")}
    model.save(tmp_path / "model.zip")
    with pytest.raises(ValueError, match="its policy_kwargs has a path"):
        write_public_model(tmp_path / "model.zip", tmp_path / "public.zip")
