"""``sb3-ext mcp``, with the SDK's client on the other side."""

import base64
import csv
import io
import json
import os
import shutil
import signal
import time

import cv2
import numpy as np
import pytest
from mcp_client import connected
from registered_runs import add_run

from sb3_ext.cli import main

RUN = "ppo_ext/CartPole-v1_1"
TRAIN = "train --env CartPole-v1 -n 256 --seed 1 --eval-freq 128 --save-freq 128 --verbose 0 --num-threads 1"
TINY = {"n_envs": 2, "n_steps": 64, "batch_size": 64, "n_epochs": 1, "ext": {"report": False, "vec_env": "dummy"}}
MAX_STEPS = 1_000_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A log folder with a run, a copy of it whose files are broken, and a link to a run outside."""
    logs = tmp_path_factory.mktemp("mcp") / "logs"
    words = ["n_envs:2", "n_steps:64", "batch_size:64", "ext:dict(report=False)"]
    main([*TRAIN.split(), "-f", str(logs), "-params", *words])
    broken = shutil.copytree(logs / RUN, logs / "ppo_ext" / "CartPole-v1_7")
    for file in broken.rglob("*"):
        if file.is_file():
            file.write_bytes(b"\x1b[2J\0{" + file.read_bytes()[:40])
    outside = add_run(logs.parent / "outside", RUN, id="secret")
    (logs / "ppo_ext" / "linked_1").symlink_to(outside, target_is_directory=True)
    return logs


@pytest.fixture(scope="module")
def call(logs):
    limits = ["--max-processes", "1", "--max-steps", str(MAX_STEPS), "--max-seconds", "600"]
    with connected(["-f", str(logs), *limits]) as caller:
        yield caller


def test_every_tool_says_what_it_does_and_what_its_parameters_mean(call):
    tools = call.tools()
    assert len(tools) == 15
    for tool in tools.values():
        assert len(tool.description) > 60
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations.read_only_hint is (tool.name.partition("_")[0] not in ("start", "stop", "resume"))
    assert "@last" in tools["show_run"].input_schema["properties"]["run"]["description"]


def test_environments_are_listed_with_spaces_and_tuned_algorithms(call):
    found = call("list_envs", search_for="mountaincar cont", tuned_for_algo="sac")
    (env,) = found["environments"]
    assert env["id"] == "MountainCarContinuous-v0" and env["action"] == "Box(1) [-1, 1]" and "sac" in env["tuned"]


def test_environments_with_nearly_this_name_are_listed_as_such(call):
    assert "nearest" in call("list_envs", search_for="cartpoel", limit=1)["note"]


def test_tuned_configs_are_listed_by_algorithm(call):
    configs = {config["algo"]: config for config in call("list_configs", env="CartPole-v1")["configs"]}
    assert {"ppo_ext", "reinforce", "dqn"} <= set(configs)
    assert configs["ppo_ext"]["hyperparams"]["gamma"] == 0.98


def test_runs_are_listed_and_filtered(call):
    listed = call("list_runs", env="cartpole*", algo="ppo_ext", states=["finished"])
    (run,) = listed["runs"]
    assert (run["run"], run["steps"], run["seed"]) == (RUN, 256, 1)
    assert call("list_runs", env="Acrobot-v1") == {"total": 0, "runs": []}


def test_a_run_is_shown_with_its_files(call):
    shown = call("show_run", run=RUN)
    assert "trained: ppo_ext on CartPole-v1, 2 environments" in shown and "best_model.zip" in shown


def test_runs_are_compared(call):
    compared = call("compare_runs", runs=[RUN, "@best:CartPole-v1"])
    assert "CartPole-v1 (last evaluation; threshold 475)" in compared and "baseline" in compared


def test_a_report_is_read_as_a_whole_or_by_sections(call):
    whole = call("read_report", run=RUN)
    assert whole.startswith("# ppo_ext on CartPole-v1") and len(whole) < 21_000
    part = call("read_report", run=RUN, sections=["Speed", "Config"])
    assert part.startswith("## Speed\n") and "## Config\n" in part and "## Curves" not in part
    assert "did you mean 'Speed'?" in call.error("read_report", run=RUN, sections=["Sped"])


def test_a_long_report_is_cut_and_says_how_to_read_the_rest(call, logs):
    run = shutil.copytree(logs / RUN, logs / "long" / "CartPole-v1_1")
    names = [f"custom/{'x' * 60}_{number}" for number in range(300)]
    (run / "progress.csv").write_text(",".join(["time/total_timesteps", *names]) + "\n" + ",".join(["1"] * 301) + "\n")
    whole = call("read_report", run="long/CartPole-v1_1")
    shutil.rmtree(logs / "long")
    assert len(whole) < 21_000 and "more characters are left out. Ask for sections: What to try next, " in whole


def test_alerts_are_read(call):
    assert call("read_alerts", run=RUN).startswith("## Alerts\n")


def test_curves_are_read_by_name_or_all_in_a_table(call):
    assert "| `train/approx_kl`" in call("read_curves", run=RUN)
    curve = call("read_curves", run=RUN, metrics=["eval/mean_reward"])
    assert "### eval/mean_reward" in curve and "steps" in curve and "| 128" in curve
    assert "did you mean 'train/loss'?" in call.error("read_curves", run=RUN, metrics=["train/los"])


def test_a_config_is_checked_and_shown_with_its_sources(call):
    text = call("check_config", env="CartPole-v1", hyperparams={"gamma": 2, "learning_rat": 1})
    assert text.startswith("2 mistakes:") and "gamma=2 must be" in text and "did you mean 'learning_rate'?" in text
    text = call("check_config", env="CartPole-v1", algo="dqn", hyperparams={"gamma": 0.5})
    assert text.startswith("No mistakes.") and "\ngamma: 0.5  (-params)\n" in text and "(dqn.yml:" in text


def test_an_episode_is_read_page_by_page(call):
    text = call("sample_episode", run=f"{RUN}@128", n_rows=4)
    head, _, table = text.partition("\n")
    assert head.startswith("CartPole-v1_1@128, seed 0: score ") and head.endswith("first_row=4.")
    first = list(csv.DictReader(io.StringIO(table)))
    _, _, table = call("sample_episode", run=f"{RUN}@128", first_row=2, n_rows=4, columns=["step", "obs_0"]).partition(
        "\n"
    )
    second = list(csv.DictReader(io.StringIO(table)))
    assert [row["step"] for row in (*first, *second)] == ["0", "1", "2", "3", "2", "3", "4", "5"]
    assert second[0] == {"step": "2", "obs_0": first[2]["obs_0"]}
    assert "did you mean 'obs_0'?" in call.error("sample_episode", run=RUN, columns=["obs0"])
    assert "the episode has" in call.error("sample_episode", run=RUN, first_row=10_000)


def test_a_screenshot_shows_the_frame_of_a_step(call):
    frames = []
    for step in (0, 5):
        image = call("take_screenshot", run=RUN, step=step)
        assert image.mime_type == "image/png"
        frames.append(cv2.imdecode(np.frombuffer(base64.b64decode(image.data), np.uint8), cv2.IMREAD_COLOR))
    assert frames[0].shape == frames[1].shape == (400, 600, 3) and (frames[0] != frames[1]).any()
    assert "frames from 0 to" in call.error("take_screenshot", run=RUN, step=9_999)


@pytest.mark.parametrize(
    "name",
    [
        "../outside/ppo_ext/CartPole-v1_1",
        "{outside}",
        "ppo_ext/linked_1",
        "ppo_ext/../../outside/ppo_ext/CartPole-v1_1",
        "wandb:me/poles/abc",
        "https://wandb.ai/me/poles/runs/abc",
        "/etc/passwd",
        "@last/../../outside",
        "secret",
        "\0",
        "",
        "x" * 100_000,
    ],
)
@pytest.mark.parametrize("tool", ["show_run", "read_report", "sample_episode", "resume_training"])
def test_a_run_outside_the_log_folder_is_refused(call, logs, tool, name):
    answer = call.error(tool, run=name.format(outside=logs.parent / "outside" / RUN))
    assert len(answer) < 500 and "secret" not in answer.replace("'secret'", "")


@pytest.mark.parametrize("tool", ["show_run", "read_report", "read_alerts", "read_curves"])
def test_a_broken_run_is_described_without_its_control_characters(call, tool):
    result = call.result(tool, run="ppo_ext/CartPole-v1_7")
    assert "\x1b" not in result.content[0].text and "Traceback" not in result.content[0].text


@pytest.mark.parametrize("tool", ["sample_episode", "take_screenshot", "resume_training"])
def test_a_broken_model_is_an_error(call, tool):
    assert "CartPole-v1_7" in call.error(tool, run="ppo_ext/CartPole-v1_7")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"env": "CartPol-v1"}, "did you mean 'CartPole-v1'?"),
        ({"env": "os:CartPole-v1"}, "There is no environment"),
        ({"env": "CartPole-v1", "algo": "ppo_xt"}, "did you mean 'ppo_ext'?"),
        ({"env": "CartPole-v1", "algo": "../../x"}, "is not one of"),
        ({"env": "CartPole-v1", "steps": MAX_STEPS + 1}, "--max-steps"),
        ({"env": "LunarLanderContinuous-v3", "algo": "ddpg", "hyperparams": {"gamma": 2}}, "gamma=2 must be"),
        ({"env": "PongNoFrameskip-v4", "algo": "ppo"}, "--max-steps"),
        ({"env": "CartPole-v1", "steps": 10**400}, "steps: "),
        ({"env": "CartPole-v1", "steps": "many"}, "steps: "),
        ({"env": "CartPole-v1", "seed": -1}, "seed: "),
        ({"env": ["CartPole-v1"]}, "env: "),
        ({"env": "CartPole-v1", "stpes": 5}, "did you mean 'steps'?"),
        ({"env": "CartPole-v1", "hyperparams": [1]}, "hyperparams: "),
        ({"env": "CartPole-v1", "hyperparams": {"policy_kwargs": "dict(net_arch=__import__('os'))"}}, "evaluated"),
        ({"env": "CartPole-v1", "hyperparams": {"learning_rate": "exec('1')"}}, "can't be set here"),
        ({"env": "CartPole-v1", "hyperparams": {"env_wrapper": "antigravity.Wrapper"}}, "it imports code"),
        ({"env": "CartPole-v1", "hyperparams": {"ext": {"init_from": "elsewhere"}}}, "ext: init_from can't be set"),
        ({"env": "CartPole-v1", "hyperparams": {"conf_file": "x"}}, "PPOExt has no parameter 'conf_file'"),
    ],
)
def test_a_training_with_a_mistake_or_with_code_does_not_start(call, logs, arguments, said):
    answer = call.error("start_training", **arguments)
    assert said in answer and len(answer) < 1000
    assert not (logs / "mcp").exists(), "a process was started"


def test_a_training_whose_folder_is_a_link_outside_does_not_start(call, logs):
    (logs / "a2c").symlink_to(logs.parent / "outside", target_is_directory=True)
    assert "leads out of the log folder" in call.error("start_training", env="CartPole-v1", algo="a2c")
    (logs / "a2c").unlink()


def wait_for(is_true, seconds=600):
    end = time.monotonic() + seconds
    while not (result := is_true()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return result


def trained_status(call, name):
    """When it has trained for some steps."""

    def status():
        status = call("training_status", training=name, wait_seconds=1)
        assert status["exit_code"] is None, status
        return status if status["state"] == "running" and (status["steps"] or 0) > 500 else None

    return wait_for(status)


@pytest.fixture(scope="module")
def trained(call):
    """A training of a stock algorithm that is started, watched and stopped: the answers of the tools."""
    started = call("start_training", env="CartPole-v1", algo="ppo", seed=3, steps=MAX_STEPS, hyperparams=TINY)
    too_many = call.error("start_training", env="CartPole-v1")
    running = trained_status(call, started["training"])
    report = call("read_report", run=running["run"])
    stopped = call("stop_training", training=started["training"])
    while stopped["exit_code"] is None:  # on a busy machine
        stopped = call("training_status", training=started["training"], wait_seconds=50)
    return {"started": started, "too many": too_many, "running": running, "report": report, "stopped": stopped}


def test_a_training_is_started_and_watched(trained, logs):
    assert trained["started"]["command"].startswith("sb3-ext train --algo ppo --env CartPole-v1 -n 1000000 -f ")
    running = trained["running"]
    assert running["run"] == "ppo/CartPole-v1_1" and running["total_timesteps"] == MAX_STEPS
    assert "**Training has not ended**" in trained["report"]
    hyperparams = json.loads((logs / running["run"] / "run.json").read_text())["hyperparams"]
    assert (hyperparams["n_steps"], hyperparams["n_epochs"]) == (64, 1)


def test_no_more_trainings_run_at_once_than_are_allowed(trained):
    assert "(--max-processes)" in trained["too many"] and "training_1" in trained["too many"]


def test_a_training_that_is_stopped_has_saved_its_state(trained, logs):
    stopped = trained["stopped"]
    assert (stopped["state"], stopped["exit_code"]) == ("interrupted", 128 + signal.SIGTERM)
    assert (logs / stopped["run"] / "resume.zip").is_file()


def test_what_a_training_prints_goes_to_a_file_in_the_log_folder(trained, logs):
    (file,) = (logs / "mcp").glob("*training_1.log")
    assert "CartPole-v1" in file.read_text()


def test_a_training_that_has_ended_or_is_unknown_can_not_be_stopped(call, trained):
    assert call.error("stop_training", training="training_1") == "training_1 has already ended."
    assert "did you mean 'training_1'?" in call.error("stop_training", training="training_12")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"steps": 10_000_000}, "--max-steps"),
        ({"hyperparams": {"policy_kwargs": {"net_arch": [8]}}}, "can't change in a resume"),
        ({"hyperparams": {"gamma": 3}}, "gamma=3 must be"),
        ({"hyperparams": {"callback": "os.x"}}, "it imports code"),
    ],
)
def test_a_resume_with_a_mistake_does_not_start(call, trained, arguments, said):
    assert said in call.error("resume_training", run=trained["stopped"]["run"], **arguments)


def test_a_run_that_has_all_its_steps_is_not_resumed(call):
    assert "there is nothing left" in call.error("resume_training", run=RUN, steps=10)


def test_a_run_that_logs_elsewhere_is_not_resumed(call, logs):
    args = logs / RUN / "CartPole-v1" / "args.yml"
    before = args.read_text()
    args.write_text(before.replace("tensorboard_log\n    - ''", "tensorboard_log\n    - elsewhere"))
    try:
        assert "outside the log folder" in call.error("resume_training", run=RUN, steps=512)
    finally:
        args.write_text(before)


def test_a_resumed_training_that_is_killed_is_told_of(call, trained, logs):
    resumed = call("resume_training", run="ppo/CartPole-v1_1", hyperparams={"gamma": 0.9})
    running = trained_status(call, resumed["training"])
    assert running["run"] == "ppo/CartPole-v1_1"
    facts = json.loads((logs / running["run"] / "run.json").read_text())
    assert len(facts["resumes"]) == 1 and facts["hyperparams"]["gamma"] == 0.9
    os.kill(facts["pid"], signal.SIGKILL)
    status = call("training_status", training=resumed["training"], wait_seconds=20)
    assert (status["state"], status["exit_code"]) == ("killed", -signal.SIGKILL)
    assert len(call("training_status")["trainings"]) == 2
