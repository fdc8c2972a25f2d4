"""What an exported file would not reproduce is refused, and nothing is written."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from models_to_export import make_env, make_model, normalized
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecFrameStack

from sb3_ext import PPOExt
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.export import export_policy
from sb3_ext.runs.agents.export_check import check_file
from sb3_ext.runs.agents.export_inputs import observation_inputs
from sb3_ext.runs.agents.export_policy import make_policy_module


class DecidesInPython(ActorCriticPolicy):
    """The trace records only one of the two ways."""

    def get_distribution(self, obs):
        return super().get_distribution(obs if len(obs) > 50 else -obs)


class NotInOnnx(ActorCriticPolicy):
    def _get_action_dist_from_latent(self, latent_pi):
        return super()._get_action_dist_from_latent(th.special.bessel_j0(latent_pi))


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (DecidesInPython, r"disagrees with predict on \d+ of 1,000 random observations.*\n?.*action \d.*value"),
        (NotInOnnx, "NotInOnnx can't be exported as onnx: .*bessel_j0"),
    ],
)
def test_a_policy_that_the_file_would_not_reproduce_is_refused_and_nothing_is_written(policy, answer, tmp_path, capfd):
    env = make_env()
    (tmp_path / "agent.onnx").write_text("an earlier file")
    with pytest.raises(UsageError, match=answer):
        export_policy(PPOExt(policy, env, device="cpu"), env, tmp_path / "agent.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["an earlier file"]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("action", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_between_equally_good_actions_rounding_may_decide(action, tmp_path):
    env = make_env(action=action)
    model = make_model(PPOExt, env)
    module = make_policy_module(model, observation_inputs(env, model.observation_space))

    def run_with_other_actions(inputs):
        with th.no_grad():
            action, *others = (output.numpy() for output in module(th.as_tensor(inputs["observation"])))
        return [1 - action.clip(0, 1), *others]

    with pytest.raises(UsageError, match="disagrees"):
        check_file(model, module, run_with_other_actions)
    with th.no_grad():
        model.policy.action_net.weight *= 0
        model.policy.action_net.bias *= 0
    check_file(model, module, run_with_other_actions)


def test_normalised_whole_numbers_that_are_stacked_are_refused(tmp_path):
    env = VecFrameStack(normalized(make_env(spaces.Box(0, 9, (3,), np.int32))), 2)
    with pytest.raises(UsageError, match="VecFrameStack then cuts them to whole numbers"):
        export_policy(make_model(PPOExt, env), env, tmp_path / "agent.onnx")


def test_an_environment_with_other_observations_is_refused(tmp_path):
    model = make_model(PPOExt, make_env())
    with pytest.raises(UsageError, match=r"The model sees Box.*but the environment gives Box"):
        export_policy(model, make_env("image"), tmp_path / "agent.onnx")
