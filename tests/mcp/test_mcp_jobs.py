"""What the helper process does, in this process."""

import pytest

from sb3_ext.cli import main
from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.jobs import episode_rows, screenshot

ENV = """
import gymnasium as gym
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv

gym.register("Unseen-v0", lambda **kwargs: RandomEnv(OBSERVATION_SPACES["Dict"], ACTION_SPACES["Discrete"], **kwargs))
"""
SECTION = "Unseen-v0: {n_timesteps: 64, policy: MultiInputPolicy, n_steps: 32, batch_size: 32, ext: {report: false}}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of an environment of the user's, which has no pictures."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "unseen_env.py").write_text(ENV)
    (folder / "ppo_ext.yml").write_text(SECTION)
    words = "train --env Unseen-v0 --gym-packages unseen_env --eval-freq -1 --verbose 0 --num-threads 1"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        main([*words.split(), "-f", str(folder / "logs"), "-conf", str(folder / "ppo_ext.yml")])
    return str(folder / "logs" / "ppo_ext" / "Unseen-v0_1")


def test_an_environment_without_pictures_can_be_played_but_not_be_photographed(run):
    head, header, *rows = episode_rows(run, None, 0, 0, 200, ["step", "obs_vector_2", "reward"], 20_000).splitlines()
    assert head.startswith("Unseen-v0_1@final, seed 0: score ") and head.endswith("in 7 steps. Rows 0 to 6.")
    assert header == "step,obs_vector_2,reward" and len(rows) == 7
    for step in (0, 3):
        with pytest.raises(UsageError, match="Unseen-v0 can't be rendered"):
            screenshot(run, None, 0, step)


def test_a_page_has_no_more_characters_than_allowed_and_at_least_a_row(run):
    assert "Rows 0 to 1; the next page has first_row=2." in episode_rows(run, None, 0, 0, 200, ["step"], 9)
    assert "Rows 4 to 4; the next page has first_row=5." in episode_rows(run, None, 0, 4, 200, ["step"], 1)
