"""An exported policy answers as ``predict`` does, from observations before normalisation."""

import json
import zipfile

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest
import torch as th
from conftest import RandomEnv
from gymnasium import spaces
from models_to_export import ACTIONS, OBSERVATIONS, OFF_POLICY, SMALL, make_env, make_model, normalized
from sb3_contrib import TRPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt
from sb3_ext.runs.agents.export import export_policy

N = 1000


class LabelledEnv(RandomEnv):
    def get_action_meanings(self):
        return ["LEFT", "STAY", "RIGHT"]


def export(model, env, path):
    """Returns a function that runs the file, with the names of its outputs."""
    export_policy(model, env, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would only wait
    session = onnxruntime.InferenceSession(path, options)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def sample(space, n=N):
    space.seed(0)
    samples = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([one[key] for one in samples]) for key in space.spaces}
    return np.stack(samples)


def as_inputs(observations):
    if not isinstance(observations, dict):
        return {"observation": observations}
    renamed = {"7": "observation_7", "value": "observation_value"}
    return {renamed.get(key, key): array for key, array in observations.items()}


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_actions_for_1000_observations_of_each_kind_are_those_of_predict(observation, tmp_path):
    env = make_env(observation)
    model = make_model(PPOExt, env)
    run = export(model, env, tmp_path / "agent.onnx")
    observations = sample(env.observation_space)
    actions = run(as_inputs(observations))["action"]
    assert np.array_equal(actions, model.predict(observations, deterministic=True)[0])
    assert len(set(actions.tolist())) > 1


@pytest.mark.parametrize("action", ACTIONS)
def test_actions_of_each_kind_are_those_of_predict_for_1000_observations(action, tmp_path):
    env = make_env(action=action)
    model = make_model(PPO, env)
    run = export(model, env, tmp_path / "agent.onnx")
    observations = sample(env.observation_space)
    actions, expected = run({"observation": observations})["action"], model.predict(observations, deterministic=True)[0]
    assert actions.dtype == expected.dtype
    np.testing.assert_allclose(actions, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "action", "kwargs"),
    [
        (A2CExt, "Discrete", SMALL),
        (REINFORCE, "MultiBinary", SMALL),
        (TRPO, "MultiDiscrete", SMALL),
        (DQN, "Discrete", OFF_POLICY),
        (SAC, "Box of float64", OFF_POLICY),
        (SAC, "Box", {**OFF_POLICY, "use_sde": True}),
        (TD3, "Box", OFF_POLICY),
        (PPO, "Box of float64", {"use_sde": True, "policy_kwargs": {"squash_output": True}}),
        (PPOExt, "Box", {"normalize_values": True, "policy_kwargs": {"layer_norm": True, "dropout": 0.5}}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_other_algorithms_can_be_exported(algorithm, action, kwargs, tmp_path):
    env = make_env("Dict", action)
    model = make_model(algorithm, env, **kwargs)
    outputs = export(model, env, tmp_path / "agent.onnx")(sample(env.observation_space))
    expected, _ = model.predict(sample(env.observation_space), deterministic=True)
    np.testing.assert_allclose(outputs["action"], expected, atol=1e-5)
    assert outputs["value"].shape == (N,)


@pytest.mark.parametrize("action", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_probabilities_and_values_are_those_of_the_policy(action, tmp_path):
    env = make_env(action=action)
    model = make_model(PPOExt, env)
    observations = sample(env.observation_space, 50)
    outputs = export(model, env, tmp_path / "agent.onnx")({"observation": observations})
    with th.no_grad():
        tensor, _ = model.policy.obs_to_tensor(observations)
        parts = model.policy.get_distribution(tensor).distribution
        values = model.policy.predict_values(tensor)
    expected = np.concatenate([part.probs for part in (parts if isinstance(parts, list) else [parts])], axis=1)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-6)
    np.testing.assert_allclose(outputs["value"], values.flatten(), atol=1e-5)


def test_dqn_gives_q_values_and_the_largest_is_the_value(tmp_path):
    env = make_env()
    outputs = export(make_model(DQN, env, **OFF_POLICY), env, tmp_path / "agent.onnx")(
        as_inputs(sample(OBSERVATIONS["Box"]))
    )
    assert np.array_equal(outputs["q_values"].argmax(axis=1), outputs["action"])
    assert np.array_equal(outputs["q_values"].max(axis=1), outputs["value"])


def test_a_value_function_that_nothing_trained_is_left_out(tmp_path):
    env = make_env()
    model = make_model(REINFORCE, env, baseline="mean", vf_coef=0)
    assert export_policy(model, env, tmp_path / "agent.onnx").outputs == ["action", "probabilities"]


class FarEnv(gym.Env):
    """Observations far from 0; episodes of 5 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def _observe(self):
        return (self.np_random.normal(size=3) * [0.1, 1, 100] + [5, -700, 20_000]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        return self._observe(), 0.0, self._step == 5, False, {}


def test_statistics_of_vec_normalize_are_in_the_file(tmp_path):
    env = normalized(DummyVecEnv([FarEnv]), clip_obs=1.5, epsilon=0.1)
    model = make_model(PPOExt, env)
    run = export(model, env, tmp_path / "agent.onnx")
    rng = np.random.default_rng(1)
    raw = (rng.normal(size=(N, 3)) * [0.2, 2, 200] + [5, -700, 20_000]).astype(np.float32)
    expected, _ = model.predict(env.normalize_obs(raw), deterministic=True)
    assert np.array_equal(run({"observation": raw})["action"], expected)


def test_only_the_keys_that_vec_normalize_knows_are_normalised(tmp_path):
    env = normalized(make_env("Dict"), norm_obs_keys=["vector"])
    model = make_model(PPOExt, env)
    run = export(model, env, tmp_path / "agent.onnx")
    observations = sample(env.observation_space)
    expected, _ = model.predict(env.normalize_obs(observations), deterministic=True)
    assert np.array_equal(run(observations)["action"], expected)


def test_a_vec_normalize_that_leaves_observations_alone_adds_nothing(tmp_path):
    env = normalized(make_env(), norm_obs=False)
    model = make_model(PPOExt, env)
    observations = sample(env.observation_space)
    actions = export(model, env, tmp_path / "agent.onnx")({"observation": observations})["action"]
    assert np.array_equal(actions, model.predict(observations, deterministic=True)[0])


@pytest.mark.parametrize("order", ["normalised, then stacked", "stacked, then normalised"])
def test_frames_stacked_as_the_metadata_say_play_as_the_environment_does(order, tmp_path):
    env = DummyVecEnv([FarEnv])
    if order == "normalised, then stacked":
        env = VecFrameStack(normalized(env), 3)
        vec_normalize = env.venv
    else:
        env = vec_normalize = normalized(VecFrameStack(env, 3))
    model = make_model(PPOExt, env)
    run = export(model, env, tmp_path / "agent.onnx")
    (stack,) = json.loads(metadata(tmp_path / "agent.onnx")["frame_stack"]).values()
    empty = np.broadcast_to(np.float32(stack["empty"]), 3)
    seen, starts, frames = env.reset(), True, []
    for _ in range(12):
        raw = vec_normalize.get_original_obs()[:, -3:]
        frames = [empty[None]] * stack["n_stack"] if starts else frames
        frames = [*frames[1:], raw]
        outputs = run({"observation": np.concatenate(frames, axis=stack["axis"])})
        expected, _ = model.predict(seen, deterministic=True)
        assert np.array_equal(outputs["action"], expected)
        with th.no_grad():
            value = model.policy.predict_values(model.policy.obs_to_tensor(seen)[0])
        np.testing.assert_allclose(outputs["value"], value.flatten(), atol=1e-5)
        seen, _, (starts,), _ = env.step(expected)


def metadata(path):
    return onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map


@pytest.mark.parametrize("action", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_an_action_mask_may_be_given_or_left_out(action, tmp_path):
    env = make_env(action=action)
    model = make_model(MaskablePPOExt, env)
    run = export(model, env, tmp_path / "agent.onnx")
    observations = sample(env.observation_space)
    n_actions = len(env.envs[0].action_masks())
    masks = np.eye(n_actions, dtype=bool)[np.arange(N) % n_actions] | (np.arange(n_actions) % 2 == 1)
    given = run({"observation": observations, "action_mask": masks})["action"]
    left_out = run({"observation": observations})["action"]
    free = np.ones_like(masks)
    assert np.array_equal(given, model.predict(observations, deterministic=True, action_masks=masks)[0])
    assert np.array_equal(left_out, model.predict(observations, deterministic=True, action_masks=free)[0])
    assert not np.array_equal(given, left_out)


@pytest.mark.parametrize("enable_critic_lstm", [True, False])
def test_a_recurrent_policy_takes_and_gives_its_state(enable_critic_lstm, tmp_path):
    env = make_env(action="Box")
    options = {"lstm_hidden_size": 8, "n_lstm_layers": 2, "enable_critic_lstm": enable_critic_lstm}
    model = make_model(RecurrentPPOExt, env, policy_kwargs=options)
    run = export(model, env, tmp_path / "agent.onnx")
    observations = sample(env.observation_space, 60).reshape(20, 3, -1)
    state, inputs, starts = None, {}, np.zeros(3)
    for step, batch in enumerate(observations):
        outputs = run({"observation": batch, **inputs})
        expected, state = model.predict(batch, state, starts, deterministic=True)
        np.testing.assert_allclose(outputs["action"], expected, atol=1e-5, err_msg=f"step {step}")
        np.testing.assert_allclose(outputs["next_state"][:, :2].transpose(1, 2, 0, 3), state, atol=1e-5)
        inputs = {"state": outputs["next_state"]}
        if step == 10:  # an episode starts in the second environment
            inputs["state"][1] = 0
        starts = np.array([0, step == 10, 0])


def test_a_torchscript_file_gives_the_same_outputs_in_their_order(tmp_path):
    env = normalized(make_env("Dict"), norm_obs_keys=["vector"])
    model = make_model(PPOExt, env)
    expected = export(model, env, tmp_path / "agent.onnx")(sample(env.observation_space))
    exported = export_policy(model, env, tmp_path / "agent.pt")
    files = {"metadata.json": ""}
    module = th.jit.load(tmp_path / "agent.pt", _extra_files=files)
    facts = json.loads(files["metadata.json"])
    assert json.loads(facts["inputs"]) == exported.inputs == ["number", "vector"]
    observations = sample(env.observation_space)
    outputs = module(*(th.as_tensor(observations[name]) for name in exported.inputs))
    for name, output in zip(json.loads(facts["outputs"]), outputs, strict=True):
        np.testing.assert_allclose(output.detach().numpy(), expected[name], atol=1e-5)


@pytest.mark.parametrize("suffix", ["onnx", "pt"])
def test_a_file_has_no_paths_of_this_machine(suffix, tmp_path):
    env = make_env()
    export_policy(make_model(PPOExt, env), env, tmp_path / f"agent.{suffix}")
    content = (tmp_path / f"agent.{suffix}").read_bytes()
    if suffix == "pt":
        with zipfile.ZipFile(tmp_path / "agent.pt") as archive:
            content = b"".join(map(archive.read, archive.namelist()))
    assert b"site-packages" not in content and str(tmp_path).encode() not in content


def test_metadata_tell_what_the_file_is(tmp_path):
    env = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    model = PPOExt("MlpPolicy", env, device="cpu")
    model.num_timesteps = 123
    export_policy(model, env, tmp_path / "agent.onnx", run_id="abcd1234")
    facts = metadata(tmp_path / "agent.onnx")
    assert (facts["algorithm"], facts["env_id"], facts["run_id"], facts["steps"]) == (
        "ppo_ext",
        "CartPole-v1",
        "abcd1234",
        "123",
    )
    space = json.loads(facts["observation_space"])
    assert (space["type"], space["shape"], space["dtype"]) == ("Box", [4], "float32")
    assert space["high"][1] is None and space["high"][0] == pytest.approx(4.8)
    assert json.loads(facts["action_space"])["n"] == 2


def test_labels_of_actions_are_in_the_metadata(tmp_path):
    env = make_env(env_class=LabelledEnv)
    export_policy(make_model(PPOExt, env), env, tmp_path / "agent.onnx")
    assert json.loads(metadata(tmp_path / "agent.onnx")["action_labels"]) == ["LEFT", "STAY", "RIGHT"]
