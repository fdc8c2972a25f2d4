"""RL Zoo's ``-optimize`` with our algorithms, and the way from a trial to a section."""

import shlex

import gymnasium as gym
import optuna
import pytest
import rl_zoo3.callbacks
import sqlalchemy
import torch as th
import yaml
from rl_zoo3 import exp_manager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.callbacks import BaseCallback
from zoo_in_process import train

from sb3_ext.cli.main import main

SMALL = {"n_steps_pow": 5, "batch_size_pow": 6, "n_steps": 32, "n_epochs": 1, "net_arch": "small"}
STUDY = "--study-name s --storage sqlite:///s.db"
trained = []


class Record(BaseCallback):
    """Keeps what a trial trains."""

    def _on_training_start(self):
        trained.append((self.model, self.model.get_vec_normalize_env()))

    def _on_step(self):
        return True


class OnlyAllowedActions(gym.Wrapper):
    """Fails when a masked action is played."""

    def step(self, action):
        if not self.env.action_masks()[action]:
            raise RuntimeError(f"action {action} is masked")
        return self.env.step(action)


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    """SQLite does not wait for the disk at each commit."""

    def listener(connection, record):
        connection.execute("PRAGMA synchronous=OFF")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", listener)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", listener)


def search(folder, *params, algo="ppo_ext", env="CartPole-v1", more="", given="n_envs:1"):
    """One trial for each dict of parameters; what is missing in it is sampled."""
    study = optuna.create_study(
        storage=f"sqlite:///{folder}/s.db", study_name="s", direction="maximize", load_if_exists=True
    )
    for chosen in params:
        study.enqueue_trial({**SMALL, **chosen})
    few = f"--n-trials {len(params)} -n 128 --n-evaluations 2 --eval-episodes 1 --no-optim-plots"
    train(f"--algo {algo} --env {env} -optimize {few} {STUDY} {more} -params {given}", folder)
    return study.trials


def parameters(folder, algo, env="CartPole-v1"):
    return ALGOS[algo].load(folder / f"logs/{algo}/{env}_1/{env}.zip").policy.state_dict()


@pytest.mark.parametrize("algo", ["ppo_ext", "reinforce"])
def test_a_trial_becomes_a_section_that_trains_the_same(tmp_path, capsys, algo):

    search(tmp_path, {"observations": "vec_normalize", "learning_rate_schedule": "linear"}, algo=algo)
    command = next(line for line in capsys.readouterr().out.splitlines() if "sb3-ext config show" in line)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(shlex.split(command.partition("sb3-ext ")[2])) == 0
    (tmp_path / "trial.yml").write_text(capsys.readouterr().out)

    same = f"--algo {algo} --env CartPole-v1 -n 128 --seed 1 --eval-freq -1"
    train(f"{same} --conf-file trial.yml -f from_section/logs", tmp_path)
    train(f"{same} {STUDY} --trial-id 0 -f from_study/logs -params n_envs:1", tmp_path)
    ours, expected = (parameters(tmp_path / folder, algo) for folder in ("from_section", "from_study"))
    assert all(th.equal(ours[name], value) for name, value in expected.items())


def test_a_study_goes_on_and_leaves_no_run_folder(tmp_path, capsys):
    search(tmp_path, {})
    search(tmp_path, {})
    assert "Number of finished trials:  2" in capsys.readouterr().out
    assert not list((tmp_path / "logs/ppo_ext").glob("CartPole-v1_*"))


def test_the_best_trial_is_shown_as_a_section(tmp_path, capsys):
    (trial,) = search(tmp_path, {"kl_control": "rollback"}, given="n_envs:2 vf_coef:0.25")
    shown = capsys.readouterr().out.partition("for --conf-file:")[2].partition("This one")[0]
    typed = {"n_envs": 2, "n_timesteps": 128, "vf_coef": 0.25, "policy": "MlpPolicy"}
    assert yaml.safe_load(shown)["CartPole-v1"] == {**typed, **HYPERPARAMS_CONVERTER["ppo_ext"](trial.params)}


def test_a_trial_is_normalised_as_its_parameters_say_and_with_its_own_gamma(tmp_path):
    trained.clear()
    chosen = [("raw", "raw"), ("vec_normalize", "popart"), ("policy", "vec_normalize")]
    params = [{"observations": observations, "rewards": rewards} for observations, rewards in chosen]
    recording = f'''n_envs:1 normalize:True "callback:'{__name__}.Record'"'''
    trials = search(tmp_path, *params, given=recording)
    (_, raw), (popart, observed), (extracted, rewarded) = trained
    assert raw is None
    assert (observed.norm_obs, observed.norm_reward, popart.normalize_values) == (True, False, True)
    assert (rewarded.norm_obs, rewarded.norm_reward, extracted.normalize_values) == (False, True, False)
    assert type(extracted.policy.features_extractor).__name__ == "NormalizedMlp"
    assert rewarded.gamma == 1 - trials[2].params["one_minus_gamma"] == extracted.gamma


@pytest.fixture(scope="module")
def masked_trials(tmp_path_factory):
    wrappers = f"['sb3_ext.wrappers.ActionMaskFromInfo','{__name__}.OnlyAllowedActions']"
    given = f'n_envs:1 "env_wrapper:{wrappers}"'
    return search(
        tmp_path_factory.mktemp("masked"), {}, algo="ppo_mask_ext", env="Taxi-v4", more="--pruner none", given=given
    )


def test_evaluations_of_a_trial_never_play_a_masked_action(masked_trials):
    assert [(trial.state.name, len(trial.intermediate_values)) for trial in masked_trials] == [("COMPLETE", 2)]


def test_after_a_search_with_masks_other_algorithms_are_evaluated_as_before(masked_trials):
    assert exp_manager.TrialEvalCallback is rl_zoo3.callbacks.TrialEvalCallback
