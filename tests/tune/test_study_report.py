"""The report of a study, of those too that have little to tell."""

import re
import shlex

import optuna
import pytest
import yaml
from fake_studies import RESULT, SETTINGS, START, add_trial, make_curve, make_study
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from sb3_ext.cli import main
from sb3_ext.tune.plots import draw_plots
from sb3_ext.tune.record import curve_to
from sb3_ext.tune.report import report_text, write_report


@pytest.fixture(autouse=True, scope="module")
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def report_of(study, folder):
    return write_report(study, folder).read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs") / "tune" / "bad-start"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def report(folder):
    """Of a study in which everything happened."""
    fresh = {f"fresh {name} 400": curve_to(make_curve(20, 10)) for name in ("start", "trial 7")}
    storage = JournalStorage(JournalFileBackend(str(folder / "study.log")))
    command = "sb3-ext tune CartPole-v1 -conf my.yml --storage postgresql://me:secret@host/db --trials 32"
    study = make_study(30, storage=storage, result=RESULT, command=command, **fresh)
    add_trial(study, {"learning_rate": 0.1}, "failed", 3.0, error="ValueError: NaN in\nthe policy")
    add_trial(study, {"learning_rate": 0.001}, "complete", 350.0, "llm", note="Lower the\nrate: \x1b[31mit diverged.")
    draw_plots(study, folder)
    return report_of(study, folder)


def section_of(report, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", report, re.M | re.S)[1]


def test_the_verdict_is_at_the_top(report):
    assert report.splitlines()[:3] == [
        "# ppo_ext on CartPole-v1: study bad-start",
        "",
        "**Trial 7 is better than the start.** On 5 fresh seeds, the mean score is 428.3, and 21.52 at the start. "
        "It was written to `hyperparams/ppo_ext.yml`.",
    ]


def test_the_best_configuration_can_be_used_as_it_is(report):
    text = section_of(report, "Best configuration")
    section = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.S)[1])["CartPole-v1"]
    assert section["n_envs"] == START["n_envs"] and section["clip_range"] == pytest.approx(0.208, abs=1e-3)
    assert re.search(r"\| `clip_range` +\| 0\.9 +\| 0\.208 +\|", text)
    assert "`policy`" not in text, "it is as at the start"


def test_the_comparison_has_scores_of_all_seeds_and_intervals(report):
    text = section_of(report, "Comparison on fresh seeds")
    assert re.search(r"\| 404 +\| 21 +\| 390 +\| 369 +\|", text)
    assert "Mean difference: 406.8 (95 % interval 390.2 to 420.1)." in text and "p = 0.004 " in text


def test_the_seeds_of_the_search_have_curves(report):
    assert re.search(r"\| 2 +\| 317\.2 +\| 423\.6 +\| never +\| ▁.*█ +\|", section_of(report, "Seeds of the search"))


def test_the_best_ten_trials_say_who_proposed_them_and_why(report):
    text = section_of(report, "Best trials")
    assert len(re.findall(r"^\| \d", text, re.M)) == 10
    assert re.search(r"\| 7 +\| 304\.5 +\| cmaes .* target_kl 0\.0125 \|", text)
    assert "- trial 31: Lower the rate: [31mit diverged." in text


def test_importance_is_a_text_chart(report):
    lines = section_of(report, "Importance").splitlines()
    assert re.fullmatch(r"learning_rate +\d\d% █+", lines[1])


def test_the_budget_says_what_pruning_saved(report):
    text = section_of(report, "Budget")
    assert "32: 20 complete, 11 pruned, 1 failed" in text
    assert "74, 2 of them for finalists and the comparison" in text
    # 11 pruned trials had 25,000 of 150,000 steps
    assert "1,375,000 steps, 29%" in text


def test_failures_have_their_reasons(report):
    assert section_of(report, "Failures").strip() == "- ValueError: NaN in the policy (trial 30)"


def test_the_plots_that_it_shows_exist(report, folder):
    links = re.findall(r"\]\((.*?)\)", section_of(report, "Plots"))
    assert len(links) == 6 and all((folder / link).is_file() for link in links)


def test_the_commands_train_continue_and_look_into_it(report, folder):
    text = section_of(report, "Commands")
    assert "sb3-ext train --algo ppo_ext --env CartPole-v1 -conf hyperparams/ppo_ext.yml" in text
    assert "-conf my.yml --storage postgresql://me:***@host/db --trials 64\n" in text
    assert f"optuna-dashboard {folder / 'study.log'}\n" in text


def test_the_settings_of_the_study_are_told(report):
    text = section_of(report, "What was searched")
    assert (
        "50,000 timesteps" in text
        and "area under the curve" in text
        and "learning_rate: from 1e-05 to 0.1, log scale" in text
    )


def test_a_database_can_be_looked_into(tmp_path):
    storage = RDBStorage(f"sqlite:///{tmp_path}/s.db")
    text = section_of(report_of(make_study(1, storage=storage), tmp_path), "Commands")
    assert f"optuna-dashboard sqlite:///{tmp_path}/s.db" in text


def test_the_short_report_fits_on_a_page():
    study = make_study(60, result=RESULT)
    text = report_text(study)
    assert len(text.splitlines()) < 80 and len(text) < 8000
    assert "learning_rate" in section_of(text, "Importance") and "## Commands" not in text


def test_a_study_without_a_result_is_not_said_to_be_better(tmp_path):
    text = report_of(make_study(6), tmp_path)
    assert "It has not been compared with the start on fresh seeds." in text
    assert "Comparison on fresh seeds" not in text and "sb3-ext train" not in text


@pytest.mark.parametrize("algo", ["ppo_ext", "ppo"])
def test_without_a_better_section_the_commands_print_the_best_one_and_compare_it(tmp_path, algo, capsys):
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))
    settings = {**SETTINGS, "algo": algo}
    command = "sb3-ext tune CartPole-v1 --fresh-seeds 0 --trials 1"
    study = make_study(storage=storage, settings=settings, command=command)
    add_trial(study, {"learning_rate": 0.001})
    text = section_of(report_of(study, tmp_path), "Commands")
    assert "```bash\nsb3-ext tune CartPole-v1 --trials 1 --fresh-seeds 5\n```" in text
    command = re.search(r"^sb3-ext (config show .*)$", text, re.M)[1]
    main(shlex.split(command))
    assert yaml.safe_load(capsys.readouterr().out)["CartPole-v1"] == {**START, "learning_rate": 0.001}


def test_a_comparison_with_trainings_that_diverged_says_so(tmp_path):
    start = {"scores": [float("nan"), 20.0], "seeds": [400, 401]}
    best = {"trial": 1, "scores": [10.0, 11.0], "seeds": [400, 401]}
    result = {**RESULT, "start": start, "best": best, "is_better": False, "written": None}
    text = report_of(make_study(3, result={**result, "difference": [-9.0, None, None]}), tmp_path)
    assert "**Trial 1 is not clearly better than the start.**" in text
    assert "20 (1 of 2 failed) at the start. No section was written." in text
    assert "Mean difference: -9." in text


@pytest.mark.parametrize("state", [None, "pruned", "failed"])
def test_without_a_complete_trial_it_says_so(tmp_path, state):
    study = make_study()
    for _ in range(2 if state else 0):
        add_trial(study, {"learning_rate": 0.1}, state, error="diverged" if state == "failed" else None)
    text = report_of(study, tmp_path)
    assert "**No trial is complete yet**" in text and "No plot of history: no trial is complete." in text
    assert ("- diverged (trials 0, 1)" in text) == (state == "failed")
    assert "No trial is complete" in report_text(study)


def test_a_start_that_is_best_is_said_to_be(tmp_path):
    assert "No trial is better than the start" in report_of(make_study(5, start_is_best=True), tmp_path)
