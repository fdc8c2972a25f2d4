"""What a saved model says about itself is read without running any code in it."""

import io
import json
import zipfile

import pytest
from stable_baselines3 import PPO

from sb3_ext.common.model_file import callback_state, read_model_file


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "agent.zip"
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8).save(path)
    return path


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_timesteps_and_attribute_names_are_read(model_file, suffix):
    saved = read_model_file(f"{model_file.with_suffix('')}{suffix}")
    assert saved.num_timesteps == 8
    assert "clip_range" in saved.names


def test_an_open_file_stays_open_at_its_position(model_file):
    file = io.BytesIO(model_file.read_bytes())
    read_model_file(file)
    assert file.tell() == 0


@pytest.mark.parametrize("data", [None, b"[1, 2]", b"{}", b"not JSON", b'{"num_timesteps": "many"}'])
def test_a_file_that_sb3_did_not_write_is_an_error_with_its_name(tmp_path, data):
    path = tmp_path / "agent.zip"
    if data is None:
        path.write_bytes(b"half a file")
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data", data)
    with pytest.raises(ValueError, match=r"agent.zip is not a model that SB3 saved"):
        read_model_file(path)


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model_file(tmp_path / "agent")


def test_attributes_that_unpack_to_more_than_sb3_writes_are_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", json.dumps({"num_timesteps": 1, "filler": " " * 60_000_000}))
    with pytest.raises(ValueError, match="more than 50,000,000 bytes"):
        read_model_file(tmp_path / "bomb.zip")


def test_the_state_of_callbacks_travels_with_a_model_of_any_class(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu")
    assert callback_state(model) == {}
    callback_state(model)["mine"] = {"steps": 3}
    model.save(tmp_path / "agent")
    assert callback_state(PPO.load(tmp_path / "agent", device="cpu")) == {"mine": {"steps": 3}}
