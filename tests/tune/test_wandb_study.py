"""What goes to Weights & Biases of a study, read back from what it wrote in offline mode."""

import time

import optuna
import pytest
import wandb
from fake_studies import RESULT, add_trial, make_study
from wandb_offline import offline, read_runs

from sb3_ext.tune.plots import draw_plots
from sb3_ext.tune.report import write_report
from sb3_ext.tune.wandb_study import log_study


@pytest.fixture(autouse=True, scope="module")
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A study that is logged, continued and logged again."""
    root = tmp_path_factory.mktemp("wandb")
    folder = root / "study"
    study = make_study(12, result=RESULT)
    draw_plots(study, folder)
    write_report(study, folder)
    (folder / "tuned.yml").write_text("CartPole-v1: {}\n")
    with offline(root):
        log_study(study, folder, "tuning")
        add_trial(study, {"learning_rate": 0.001, "lr_schedule": None}, height=900.0)
        log_study(study, folder, "tuning")
        yield finished_runs(root, 2)


def finished_runs(root, count):
    """W&B's service closes its file a moment after the run was finished."""
    for _ in range(300):
        runs = read_runs(root)
        if len(runs) == count and all(run.exit_code is not None for run in runs):
            break
        time.sleep(0.1)
    return runs


def test_a_row_per_trial_has_its_parameters_score_and_state(runs):
    rows = [row for row in runs[0].history if "state" in row]
    assert [row["trial"] for row in rows] == list(range(12))
    assert rows[0]["proposed_by"] == "start" and rows[0]["params.learning_rate"] == 0.03
    assert {row["state"] for row in rows} == {"complete", "pruned"}
    assert all(("score" in row) == (row["state"] == "complete") for row in rows)
    assert rows[-1]["best_score"] == max(row.get("score", 0) for row in rows)
    assert runs[0].step_metrics["*"] == "trial"


def test_a_study_that_continues_goes_on_in_its_run(runs):
    first, second = runs
    assert (first.project, first.name) == ("tuning", "bad-start")
    assert second.run_id == first.run_id
    assert [row["trial"] for row in second.history if "state" in row] == [12]
    assert (first.summary["n_trials"], second.summary["n_trials"]) == (12, 13)


def test_the_config_is_flat(runs):
    config = runs[0].config
    assert config["algo"] == "ppo_ext" and config["start.clip_range"] == 0.9
    assert config["best.clip_range"] == pytest.approx(0.208, abs=1e-3)
    assert runs[0].summary["best_trial"] == 7 and runs[0].summary["is_better"]


def test_report_section_and_plots_are_files(runs):
    names = {
        entry.path for artifact in runs[0].artifacts for entry in artifact.manifest.contents if artifact.type == "study"
    }
    assert names == {"report.md", "tuned.yml", "history.png", "importance.png", "parallel.png"}
    assert {"history plot", "importance plot", "parallel plot"} <= set().union(*runs[0].history)


def test_a_run_that_is_open_stays_open(tmp_path):
    with offline(tmp_path), wandb.init(project="mine") as run:
        log_study(make_study(1), tmp_path, "tuning")
        assert wandb.run is run


def test_a_problem_is_a_warning_and_the_next_time_sends_everything(tmp_path, monkeypatch):
    study = make_study(2)
    with offline(tmp_path):
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("WANDB_API_KEY", "short")
        with pytest.warns(UserWarning, match="The study was not sent to W&B"):
            log_study(study, tmp_path, "tuning")
        assert "wandb" not in study.user_attrs
