"""Mistakes that people make in a hyperparameter file or on the command line, and what the answer must name."""

from typing import NamedTuple

__all__ = ["MISTAKES", "SECTION", "VALUES", "Mistake", "section"]

SECTION = """CartPole-v1:
  n_envs: 2
  n_timesteps: 64
  policy: MlpPolicy
  n_steps: 8
  gamma: 0.9
"""


class Mistake(NamedTuple):
    """
    :param name: what is wrong
    :param says: what the answer contains
    :param config: content of the file ``conf.yml``
    :param flags: of the command line
    """

    name: str
    says: tuple[str, ...]
    config: str = SECTION
    flags: str = ""
    algo: str = "ppo_ext"
    env: str = "CartPole-v1"


def section(*lines: str, without: str = "") -> str:
    """The section with these lines instead of those with the same key, or below them."""
    kept = SECTION.splitlines()
    for line in lines:
        key = line.split(":")[0]
        same = [index for index, old in enumerate(kept) if old.strip().split(":")[0] == key]
        kept[same[0] if same else len(kept) :] = [f"  {line}", *kept[same[0] + 1 :]] if same else [f"  {line}"]
    return "\n".join(line for line in kept if not without or not line.strip().startswith(without)) + "\n"


def _value(line: str, *says: str, algo: str = "ppo_ext", policy: str = "") -> Mistake:
    """A wrong line below the others."""
    config = section(*([f"policy: {policy}"] if policy else []), line)
    number = next(n for n, text in enumerate(config.splitlines(), 1) if text == f"  {line}")
    return Mistake(line, (f"conf.yml:{number}", line.split(":")[0], *says), config, algo=algo)


def _flag(flags: str, *says: str, config: str = SECTION, algo: str = "ppo_ext", env: str = "CartPole-v1") -> Mistake:
    return Mistake(flags, says, config, flags, algo, env)


_CHECKPOINT = "stable_baselines3.common.callbacks.CheckpointCallback"

_LIMIT = "{gymnasium.wrappers.TimeLimit: {max_episode_steps: -3}}"

VALUES = [
    _value("learning_rat: 0.001", "'learning_rate'"),
    _value("gamma: -1", "-1", "at least 0"),
    _value("gae_lambda: 7", "7", "at most 1"),
    _value("n_epochs: three", "'three'", "whole number"),
    _value("n_epochs: 0", "at least 1"),
    _value("n_steps: 0", "at least 1"),
    _value("n_steps: 8.5", "whole number"),
    _value("batch_size: 0", "at least"),
    _value("batch_size: big", "'big'", "whole number"),
    _value("batch_size: 1", "at least 2"),
    _value("n_envs: 0", "at least 1"),
    _value("n_envs: two", "'two'", "whole number"),
    _value("n_timesteps: -5", "at least 1"),
    _value("n_timesteps: many", "'many'", "number"),
    _value("clip_range: -0.2", "above 0"),
    _value("clip_range: wrong", "'wrong'", "schedule"),
    _value("clip_range_vf: -1", "above 0"),
    _value("learning_rate: -0.001", "at least 0"),
    _value("learning_rate: lni_0.001", "'lni_0.001'", "lin_"),
    _value("learning_rate: {start: 0.1, ned: 0.01}", "'end'"),
    _value("ent_coef: {start: 0.1, end: -1}", "at least 0"),
    _value("gamma: [[0, 0.9], [1, 1.5]]", "1.5", "at most 1"),
    _value("vf_coef: -0.5", "at least 0"),
    _value("ent_coef: .inf", "finite"),
    _value("n_timesteps: .inf", "finite"),
    _value("gae_lambda: .nan", "finite"),
    _value("max_grad_norm: 0", "above 0"),
    _value('normalize_advantage: "no"', "true or false"),
    _value("use_sde: 1", "true or false"),
    _value("target_kl: -0.1", "above 0"),
    _value("kl_stop_scope: epochs", "'epoch'"),
    _value("kl_adaptive_lr_bounds: 0.1", "list"),
    _value("kl_adaptive_lr_bounds: [0.1]", "a list of 2"),
    _value("kl_adaptive_lr_bounds: [0.1, 0.01]", "the smaller one first"),
    _value("kl_rollback: true", "set target_kl"),
    _value("policy: MlpPolcy", "'MlpPolicy'"),
    _value("policy: my_module.MyPolicy", "my_module"),
    _value("policy_kwargs: dict(net_arch=[64)", "dict(net_arch=[64)"),
    _value("policy_kwargs: {net_arhc: [64]}", "'net_arch'"),
    _value("policy_kwargs: [64]", "mapping"),
    _value("policy_kwargs: {activation_fn: rellu}", "'relu'"),
    _value("policy_kwargs: {net_arch: big}", "'big'", "[64, 64]"),
    _value("policy_kwargs: {net_arch: [0]}", "at least 1"),
    _value("env_wrapper: no_such_module.Wrapper", "no_such_module"),
    _value("env_wrapper: gymnasium.wrappers.TimeLimitt", "'TimeLimit'"),
    _value("env_wrapper: [{gymnasium.wrappers.TimeLimit: {max_episode_step: 10}}]", "'max_episode_steps'"),
    _value("callback: stable_baselines3.common.callbacks.CheckpointCalback", "'CheckpointCallback'"),
    _value(f"callback: [{{{_CHECKPOINT}: {{save_freqq: 10, save_path: x}}}}]", "'save_freq'"),
    _value(f"callback: [{{{_CHECKPOINT}: {{save_freq: often, save_path: x}}}}]", "'often'", "whole number"),
    _value("normalize: {clip_obs: ten}", "'ten'"),
    _value("callback: 5", "5", "import path"),
    _value("normalize: dict(norm_obz=True)", "'norm_obs'"),
    _value('normalize: "yes"', "'yes'"),
    _value("frame_stack: -1", "at least 1"),
    _value("env_kwargs: {gravity: 3}", "'gravity'", "CartPole-v1"),
    _value("monitor_kwargs: {info_keyword: [x]}", "'info_keywords'"),
    _value("ext: {alert: true}", "'alerts'"),
    _value("ext: {evaluation: {evry: 100}}", "'every'"),
    _value("ext: {evaluation: {every: -1}}", "at least 1"),
    _value("ext: 3", "mapping"),
    _value("ext: {init_from: nothing/here}", "init_from", "nothing/here", "does not exist"),
    _value("ext: {init_from: nothing.zip}", "init_from", "nothing.zip", "does not exist"),
    _value("ext: {resume: nothing/here}", "resume", "nothing/here", "does not exist"),
    _value("ext: {resume: {run: '@last'}}", "resume", "'@last'", "no runs"),
    _value("3: 4", "no parameter 3"),
    _value("seed: 3", "--seed"),
    _value("rollout_buffer_class: MyBuffer", "RolloutBuffer"),
    _value("baseline: mena", "'mean'", algo="reinforce"),
    _value("n_epochs: 3", "n_steps", algo="reinforce"),
    _value("batch_size: 1", "at least 2", algo="reinforce"),
    _value("vf_coef: 0", "value function", algo="reinforce"),
    _value("batch_size: 16", "A2CExt", algo="a2c_ext"),
    _value("rms_prop_eps: tiny", "'tiny'", algo="a2c_ext"),
    _value("policy: MlpPolicy", "MlpLstmPolicy", algo="ppo_lstm_ext"),
    _value("target_kl: small", "'small'", algo="ppo_mask_ext"),
]
#: Found when the environments and the model are made
_SETUP = [
    _value("policy_kwargs: {optimizer_kwargs: {betta: 1}}", "'betta'"),
    _value("policy_kwargs: {dropout: 2}", "less than 1"),
    _value("policy: MultiInputPolicy", "Dict observations"),
    _value("rollout_buffer_kwargs: {sise: 3}", "'sise'"),
    _value("ext: {members: [{env_kwargs: {gravity: 3}}]}", "'gravity'"),
]
_FILES = [
    Mistake("no policy", ("conf.yml:1", "policy", "MlpPolicy"), section(without="policy")),
    Mistake("no budget", ("conf.yml:1", "n_timesteps"), section(without="n_timesteps")),
    Mistake("a duplicate key", ("conf.yml:7", "gamma", "line 6"), SECTION + "  gamma: 0.99\n"),
    Mistake("a section twice", ("conf.yml:7", "CartPole-v1", "line 1"), SECTION + SECTION),
    Mistake("a tab", ("conf.yml:7", "tab"), SECTION + "\tgae_lambda: 0.9\n"),
    Mistake("a bracket is open", ("conf.yml:",), SECTION + "  gae_lambda: [0.9\n"),
    Mistake("wrong indentation", ("conf.yml:7",), SECTION + "    gae_lambda: 0.9\n"),
    Mistake("a colon without a space", ("conf.yml:",), SECTION + "  gae_lambda:0.9\n"),
    Mistake("an empty file", ("conf.yml", "empty"), ""),
    Mistake("a list for a section", ("conf.yml:1", "CartPole-v1", "mapping"), "CartPole-v1: [8, 16]\n"),
    Mistake("a list for a file", ("conf.yml", "mapping"), "- CartPole-v1\n"),
    Mistake("no environment", ("conf.yml:1", "CartPole-v1"), SECTION[SECTION.index("\n") + 1 :].replace("  ", "")),
    Mistake("no section", ("conf.yml", "CartPole-v1", "'CartPole-v0'"), SECTION.replace("v1", "v0")),
    Mistake("two at once", ("conf.yml:6", "gamma", "conf.yml:7", "'n_epochs'"), section("gamma: 2", "n_epoch: 3")),
    Mistake(
        "policy and its arguments",
        ("conf.yml:4", "'MlpPolicy'", "conf.yml:7", "nn.Rleu"),
        section("policy: MlpPolcy", "policy_kwargs: dict(activation_fn=nn.Rleu)"),
    ),
    Mistake("a wrapper's argument", ("conf.yml:7", "max_episode_steps", "-3"), section(f"env_wrapper: [{_LIMIT}]")),
    Mistake("gSDE without a Box", ("conf.yml:1", "gSDE", "continuous"), section("use_sde: true")),
    Mistake("stock with ext", ("conf.yml:6", "gamma"), section("gamma: 2", "ext: {report: true}"), algo="ppo"),
]
_OF_ACROBOT = SECTION.replace("CartPole", "Acrobot")
_FLAGS = [
    _flag("--conf-file nosuch.yml", "nosuch.yml", "--conf-file"),
    _flag("--conf-file .", "--conf-file", "'.'"),
    _flag("--conf-file nosuch", "nosuch", "--conf-file"),
    _flag("-params n_epochs:three", "-params", "n_epochs:three", "quotes"),
    _flag("-params gama:0.9", "-params", "'gamma'"),
    _flag("-params gamma:7", "-params", "gamma", "at most 1"),
    _flag("-params gamma=0.9", "-params", "gamma=0.9", "gamma:"),
    _flag("--env-kwargs gravity:3", "--env-kwargs", "'gravity'"),
    _flag("--env CartPol-v1", "'CartPol-v1'", "'CartPole-v1'", env=""),
    _flag("-n -5", "-n", "-5", "at least 1"),
    _flag("-n 1e5", "-n", "1e5"),
    _flag("--seed 99999999999", "--seed", "99999999999"),
    _flag("--device gpu", "--device", "'gpu'", "cpu"),
    _flag("--vec-env thread", "--vec-env", "thread", "subproc"),
    _flag("--n-eval-envs 0", "--n-eval-envs", "at least 1"),
    _flag("-optimize --n-jobs 0", "--n-jobs", "at least 1"),
    _flag("--eval-episodes 0", "--eval-episodes", "at least 1"),
    _flag("--timestep 100", "--timestep"),
    _flag("--log-interval 0", "--log-interval"),
    _flag("-tb text.zip", "-tb", "text.zip"),
    _flag("-optimize --n-trials 1 --study-name s --storage nodb://x", "--storage", "nodb"),
    _flag("-i nosuch.zip", "nosuch.zip", "-i"),
    _flag("-i truncated.zip", "truncated.zip"),
    _flag("-i text.zip", "text.zip"),
    _flag("-i reinforce.zip", "reinforce.zip", "REINFORCE"),
    _flag("-i cartpole.zip", "cartpole.zip", "Observation spaces", env="Acrobot-v1", config=_OF_ACROBOT),
    _flag("-i cartpole.zip ", "cartpole.zip", "vecnormalize.pkl", config=section("normalize: true")),
    _flag("-f text.zip", "-f", "text.zip"),
    _flag("-f /proc/nosuch", "-f", "/proc/nosuch"),
    _flag("--gym-packages nosuch", "--gym-packages", "nosuch"),
    _flag("--trial-id 3", "--trial-id", "--study-name"),
    _flag("--trial-id 3 --study-name s --storage sqlite:///s.db", "'s'", "--storage"),
    _flag("--algo ppo_exd", "'ppo_exd'", "'ppo_ext'", algo=""),
    _flag("-optimize --n-trials 1", "ppo_mask_ext", "action_masks", algo="ppo_mask_ext"),
    _flag("--num-threads 1", "ppo_mask_ext", "action_masks", algo="ppo_mask_ext"),
]  # fmt: skip

MISTAKES = [*VALUES, *_SETUP, *_FILES, *_FLAGS]
