"""What all our algorithms have in common."""

import pytest
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import REINFORCE, A2CExt, PPOExt


@pytest.mark.parametrize("algorithm", [A2CExt, PPOExt, REINFORCE])
def test_logs_have_the_class_s_name_unless_another_is_given(algorithm, tmp_path):
    model = algorithm("MlpPolicy", make_vec_env("CartPole-v1", 1), n_steps=8, device="cpu", tensorboard_log=tmp_path)
    model.learn(8)
    model.learn(8, None, 1, "positional")
    model.learn(8, tb_log_name="keyword")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{algorithm.__name__}_1",
        "keyword_1",
        "positional_1",
    ]
