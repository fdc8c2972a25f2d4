"""``sb3-ext resume`` and ``ext: {resume: …}``: what can be changed, and mistakes."""

import json
import pickle
import shutil

import pandas as pd
import pytest
import yaml
from stable_baselines3.common.save_util import load_from_zip_file
from zoo_in_process import train

from sb3_ext.cli import main
from sb3_ext.common.usage_error import UsageError

SECTION = {
    "policy": "MlpPolicy",
    "n_timesteps": 128,
    "n_envs": 2,
    "n_steps": 16,
    "batch_size": 16,
    "n_epochs": 1,
    "learning_rate": "lin_0.01",
    "ext": {
        **dict.fromkeys(("table", "report", "alerts", "evaluation"), False),
        "checkpoints": {"every": 64, "table": False, "video": False},
    },
}
COMMAND = "--algo ppo_ext --env CartPole-v1 --seed 1 -conf section.yml --eval-freq -1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "section.yml").write_text(yaml.safe_dump({"CartPole-v1": SECTION}))
    train(COMMAND, folder)
    return folder


@pytest.fixture
def workspace(trained, tmp_path, monkeypatch):
    """A folder with a run that has trained for 128 steps."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_of(workspace):
    return workspace / "logs/ppo_ext/CartPole-v1_1"


def saved(workspace, name="CartPole-v1"):
    data, parameters, _ = load_from_zip_file(run_of(workspace) / f"{name}.zip")
    return data, parameters


def rows(workspace):
    return pd.read_csv(run_of(workspace) / "progress.csv")


@pytest.mark.parametrize("number", ["abc", "1.5", "-3", "0", "inf", "nan"])
def test_timesteps_must_be_a_whole_number(number, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["resume", "@last", "-n", number])
    assert f": {number} must be a whole number above 0\n" in capsys.readouterr().err


def test_a_complete_run_is_trained_further_in_its_folder_and_its_curves_go_on(workspace):
    assert main(["resume", "@last", "-n", "192"]) == 0
    assert saved(workspace)[0]["num_timesteps"] == 192
    assert [path.name for path in run_of(workspace).parent.iterdir()] == ["CartPole-v1_1"]
    steps = rows(workspace)["time/total_timesteps"].tolist()
    assert sorted(set(steps)) == [32, 64, 96, 128, 160, 192]
    facts = json.loads((run_of(workspace) / "run.json").read_text())
    assert facts["state"] == "finished"
    assert facts["total_timesteps"] == 192
    assert [resume["step"] for resume in facts["resumes"]] == [128]


@pytest.mark.parametrize(
    ("schedules", "expected"), [("stretch", [0.01 * left / 8 for left in (3, 2, 1, 0)]), ("continue", [0.0] * 4)]
)
def test_schedules_stretch_over_more_timesteps_or_stay_at_their_end(workspace, schedules, expected):
    main(["resume", "@last", "-n", "256", "--schedules", schedules])
    rates = rows(workspace)["train/learning_rate"].dropna().tolist()
    assert rates[-4:] == pytest.approx(expected)


def test_hyperparameters_can_change_and_the_next_resume_knows_them(workspace):
    main(["resume", "@last", "-n", "160", "-params", "ent_coef:0.5", "n_epochs:2"])
    main(["resume", "@last", "-n", "192"])
    data, _ = saved(workspace)
    assert (data["ent_coef"], data["n_epochs"]) == (0.5, 2)


def test_the_optimizer_can_start_afresh(workspace):
    main(["resume", "@last", "-n", "160", "--fresh-optimizer"])
    state = saved(workspace)[1]["policy.optimizer"]["state"]
    # One epoch on 32 samples in minibatches of 16
    assert {int(of_parameter["step"]) for of_parameter in state.values()} == {2}


def test_a_run_continues_from_a_checkpoint_of_sb3_ext_exactly(workspace):
    main(["resume", "@last@64", "-n", "128"])
    assert_same_parameters(workspace)


def assert_same_parameters(workspace):
    resumed = saved(workspace)[1]["policy"]
    shutil.rmtree(workspace / "logs")
    train(COMMAND, workspace)
    straight = saved(workspace)[1]["policy"]
    assert all(straight[name].equal(resumed[name]) for name in straight)


def test_schedules_continue_from_a_model_without_a_state_too(workspace):
    shutil.rmtree(run_of(workspace) / "checkpoints")
    main(["resume", "@last@last", "-n", "192", "--schedules", "continue"])
    assert rows(workspace)["train/learning_rate"].dropna().tolist()[-1] == 0.0


def test_a_resume_from_elsewhere_is_in_the_registry_of_the_run(workspace, monkeypatch):
    (workspace / "elsewhere").mkdir()
    monkeypatch.chdir(workspace / "elsewhere")
    assert main(["resume", str(run_of(workspace)), "-n", "160"]) == 0
    assert not (workspace / "elsewhere/logs").exists()
    (entry,) = [json.loads(line) for line in (workspace / "logs/runs.jsonl").read_text().splitlines()]
    assert entry["steps"] == 160


def test_more_timesteps_are_no_alert(workspace):
    section = {**SECTION, "ext": {**SECTION["ext"], "alerts": True}}
    (workspace / "section.yml").write_text(yaml.safe_dump({"CartPole-v1": section}))
    train(f"{COMMAND} -f with_alerts", workspace)
    assert main(["resume", "@last", "-f", "with_alerts", "-n", "256"]) == 0
    alerts = json.loads((workspace / "with_alerts/ppo_ext/CartPole-v1_1/alerts.json").read_text())
    assert "decreased" not in json.dumps(alerts)


def test_weights_of_the_last_run_are_not_looked_for_in_the_new_one(workspace):
    assert main(["train", "--env", "CartPole-v1", "-conf", "section.yml", "--init-from", "@last"]) == 0
    first, second = (json.loads((run_of(workspace).parent / f"CartPole-v1_{n}/run.json").read_text()) for n in (1, 2))
    assert second["parent"] == first["id"]


def test_a_section_of_rl_zoos_command_can_resume_too(workspace):
    shutil.rmtree(run_of(workspace) / "checkpoints")
    ext = {**SECTION["ext"], "resume": "@last"}
    (workspace / "section.yml").write_text(yaml.safe_dump({"CartPole-v1": {**SECTION, "ext": ext}}))
    train(f"{COMMAND} -n 160", workspace)
    assert saved(workspace)[0]["num_timesteps"] == 160


def test_a_model_without_a_state_continues_with_its_statistics(workspace):
    (workspace / "section.yml").write_text(yaml.safe_dump({"CartPole-v1": {**SECTION, "normalize": True}}))
    train(f"{COMMAND} -f normalized", workspace)
    run = workspace / "normalized/ppo_ext/CartPole-v1_1"
    (run / "resume.zip").unlink()
    shutil.rmtree(run / "checkpoints")
    assert main(["resume", "@last@last", "-f", "normalized", "-n", "160"]) == 0
    statistics = pickle.loads((run / "last_model_vecnormalize.pkl").read_bytes())
    # Of 160 steps and a new start, not of the last 32
    assert statistics.obs_rms.count > 160


def test_a_model_without_a_state_continues_with_its_counters(workspace, capsys):
    (run_of(workspace) / "resume.zip").unlink()
    shutil.rmtree(run_of(workspace) / "checkpoints")
    assert main(["resume", "@last@last", "-n", "160"]) == 0
    assert "episodes start again" in capsys.readouterr().out
    assert saved(workspace)[0]["num_timesteps"] == 160


MISTAKES = {
    "nothing left": (["@last"], "128 of 128 timesteps"),
    "fewer timesteps": (["@last", "-n", "64"], "128 of 64 timesteps"),
    "unknown run": (["nothing"], "nothing"),
    "unknown checkpoint": (["@last@65"], "rl_model_64_steps"),
    "unknown parameter": (["@last", "-n", "160", "-params", "ent_cof:0.1"], "ent_coef"),
    "no checkpoints": (["@last", "-n", "160", "-params", "ext.checkpoints:False"], "checkpoints: true"),
    "no states": (["@last", "-n", "160", "-params", "ext.checkpoints.resume_seconds:None"], "resume_seconds"),
    "other network": (["@last", "-n", "160", "-params", "policy_kwargs:dict(net_arch=[8])"], "policy_kwargs"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_in_three_lines_and_leaves_the_run_as_it_was(name, workspace, capsys):
    arguments, named = MISTAKES[name]
    before = {path: path.stat().st_mtime_ns for path in run_of(workspace).rglob("*") if path.is_file()}
    assert main(["resume", *arguments]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.strip().splitlines()) <= 3
    after = {path: path.stat().st_mtime_ns for path in run_of(workspace).rglob("*") if path.is_file()}
    assert {path.name for path in before if before[path] != after.get(path)} <= {"run.log"}


def test_a_truncated_state_is_named_with_a_way_out(workspace, capsys):
    file = run_of(workspace) / "resume.zip"
    file.write_bytes(file.read_bytes()[:1000])
    assert main(["resume", "@last", "-n", "160"]) == 2
    assert "resume.zip is damaged" in capsys.readouterr().err
    assert main(["resume", "@last@last", "-n", "160"]) == 0


def test_a_run_that_is_still_training_is_left_alone(workspace, capsys):
    path = run_of(workspace) / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "running"}))
    assert main(["resume", "@last", "-n", "160"]) == 2
    assert "still training" in capsys.readouterr().err


def test_a_run_of_another_environment_cant_be_resumed(workspace):
    section = {**SECTION, "ext": {"resume": "@last"}}
    (workspace / "section.yml").write_text(yaml.safe_dump({"Acrobot-v1": section}))
    with pytest.raises(UsageError, match="CartPole-v1"):
        train("--algo ppo_ext --env Acrobot-v1 -conf section.yml -n 160", workspace)
    assert not (workspace / "logs/ppo_ext/Acrobot-v1_1").exists()
