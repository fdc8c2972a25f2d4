"""The inspector's server: what it answers, to whom, and what it says to bad requests."""

import json
import os
import socket

import pytest
from inspected_runs import stock_run, train
from starlette.testclient import TestClient

from sb3_ext.cli import main
from sb3_ext.inspect.playground import Playground
from sb3_ext.inspect.server import make_app
from sb3_ext.inspect.training import training_facts

POST = {"X-sb3-ext": "1"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("inspect") / "logs"
    train(logs, "CartPole-v1")
    return logs


@pytest.fixture
def client(logs):
    return TestClient(make_app(logs, logs / "ppo_ext" / "CartPole-v1_1"), base_url="http://127.0.0.1")


def test_runs_are_listed_with_the_one_that_was_asked_for(client):
    answer = client.get("/api/runs").json()
    assert answer["first"] == "ppo_ext/CartPole-v1_1"
    assert [run["run"] for run in answer["runs"]] == ["ppo_ext/CartPole-v1_1"]


def test_a_run_elsewhere_is_in_the_list_too(logs, tmp_path):
    run = logs / "ppo_ext" / "CartPole-v1_1"
    client = TestClient(make_app(tmp_path, run), base_url="http://127.0.0.1")
    assert client.get("/api/runs").json()["first"] == str(run)
    assert client.get("/api/training", params={"run": str(run)}).json()["env"] == "CartPole-v1"


def test_a_training_has_curves_models_and_its_threshold(client):
    facts = client.get("/api/training", params={"run": "ppo_ext/CartPole-v1_1"}).json()
    assert facts["state"] == "finished" and facts["steps"] == 256 and facts["threshold"] == 475
    assert facts["models"] == ["128", "256", "final", "best"]
    assert facts["curves"]["evaluation"]["x"] == [128, 256]
    assert "train/loss" in facts["curves"]
    assert all(facts["meanings"][name] for name in facts["curves"])


def test_advice_does_not_repeat_the_alerts(tmp_path):
    stock_run(tmp_path, [10])
    (tmp_path / "run.json").write_text('{"state": "finished"}', encoding="utf-8")
    alert = {"id": "kl_high", "count": 3, "share": 0.5, "last_step": 9, "advice": "Lower learning_rate."}
    (tmp_path / "alerts.json").write_text(json.dumps([alert]), encoding="utf-8")
    facts = training_facts(tmp_path)
    assert [found["id"] for found in facts["alerts"]] == ["kl_high"]
    assert facts["advice"] and not [text for text in facts["advice"] if "kl_high" in text]


@pytest.mark.parametrize(
    ("episodes", "seconds_ago", "refresh_seconds", "has_advice"),
    [
        ([], 3600, 10, False),
        ([50], 0, 2, False),
        ([50], 3600, 10, False),
        ([100], 0, 2, True),
        ([100], 3600, None, True),
    ],
)
def test_a_run_of_unknown_state_is_read_again_while_it_may_run(
    tmp_path, episodes, seconds_ago, refresh_seconds, has_advice
):
    stock_run(tmp_path, episodes, n_timesteps=100)
    then = (tmp_path / "0.monitor.csv").stat().st_mtime - seconds_ago
    os.utime(tmp_path / "0.monitor.csv", (then, then))
    facts = training_facts(tmp_path)
    assert facts["state"] == "unknown" and "stock" in facts["state_hint"]
    assert facts["refresh_seconds"] == refresh_seconds and bool(facts["advice"]) == has_advice


def test_an_episode_comes_line_by_line(client):
    query = {"run": "ppo_ext/CartPole-v1_1", "model": "128", "seed": 1, "max_steps": 20}
    lines = [json.loads(line) for line in client.get("/api/episode", params=query).text.splitlines()]
    assert lines[0]["start"]["model"] == "128" and lines[1]["pictures"]
    assert "end" in lines[-1]


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ({"run": "../../etc"}, 404, "no run"),
        ({"run": "ppo_ext/CartPole-v1_2"}, 404, "no run"),
        ({"run": "ppo_ext/CartPole-v1_1", "model": "7"}, 400, "It has: @128, @256, @final, @best."),
        ({"run": "ppo_ext/CartPole-v1_1", "model": "../x"}, 400, "There is no model"),
        ({"run": "ppo_ext/CartPole-v1_1", "seed": "x"}, 400, "seed"),
        ({"run": "ppo_ext/CartPole-v1_1", "max_steps": "999999"}, 400, "max_steps"),
        ({"run": "ppo_ext/CartPole-v1_1", "sed": "1"}, 400, "seed"),
    ],
)
def test_a_bad_request_is_answered_with_a_reason(client, query, code, said):
    answer = client.get("/api/episode", params=query)
    assert answer.status_code == code and said in answer.json()["error"]


def test_a_broken_run_is_shown_with_its_problems(client, logs, tmp_path):
    broken = tmp_path / "logs" / "ppo_ext" / "CartPole-v1_1"
    (broken / "CartPole-v1").mkdir(parents=True)
    (broken / "CartPole-v1" / "args.yml").write_text("{")
    (broken / "best_model.zip").write_bytes(b"not a zip")
    app = TestClient(make_app(tmp_path / "logs", broken), base_url="http://127.0.0.1")
    facts = app.get("/api/training", params={"run": "ppo_ext/CartPole-v1_1"}).json()
    assert facts["problems"]
    answer = app.get("/api/episode", params={"run": "ppo_ext/CartPole-v1_1"})
    assert answer.status_code == 400 and "was not trained by RL Zoo" in answer.json()["error"]


def test_a_name_that_a_page_of_another_site_made_up_is_refused(logs):
    assert TestClient(make_app(logs), base_url="http://evil.example").get("/api/runs").status_code == 400


def test_for_other_machines_a_token_is_needed(logs):
    def get(address):
        return TestClient(make_app(logs, token="secret"), base_url="http://machine").get(address).status_code

    assert [get("/"), get("/api/runs?token=wrong"), get("/api/runs?token=secret")] == [403, 403, 200]


def test_the_token_is_remembered(logs):
    client = TestClient(make_app(logs, token="secret"), base_url="http://machine")
    client.get("/?token=secret")
    assert client.get("/api/runs").status_code == 200


def test_the_playground_learns_and_obeys(client):
    assert client.get("/api/playground").json() == {
        "tasks": ["CartPole", "FrozenLake", "Grid world", "Bandit"],
        "runs": False,
    }
    asked = {"action": "start", "task": "FrozenLake", "knobs": {"learning_rate": 0.01, "seed": 3}}
    assert client.post("/api/playground", json=asked, headers=POST).json()["runs"]
    client.post("/api/playground", json={"action": "set", "knobs": {"gamma": 0.5}}, headers=POST)
    while not (state := client.get("/api/playground").json()).get("curve", {}).get("y"):
        assert "error" not in state
    while (state := client.get("/api/playground").json())["knobs"]["gamma"] != 0.5:
        assert state["runs"]
    assert state["knobs"]["learning_rate"] == 0.01 and len(state["map"]["values"]) == 16
    assert not client.post("/api/playground", json={"action": "stop"}, headers=POST).json()["runs"]


def test_the_playground_stops_when_no_page_asks_for_news(monkeypatch):
    monkeypatch.setattr("sb3_ext.inspect.playground._ALONE", 0.5)
    playground = Playground()
    playground.start("Bandit", {})
    playground._session.thread.join(timeout=60)
    assert not playground.state()["runs"] and "error" not in playground.state()


@pytest.mark.parametrize(
    ("asked", "headers", "code", "said"),
    [
        ({"action": "start", "task": "Cartpole"}, POST, 400, "CartPole"),
        ({"action": "start", "task": "CartPole", "knobs": {"gamma": 2}}, POST, 400, "gamma"),
        ({"action": "start", "task": "CartPole", "knobs": {"gama": 0.9}}, POST, 400, "gamma"),
        ({"action": "destroy"}, POST, 400, "destroy"),
        ({"task": "CartPole"}, POST, 400, "Expected an action"),
        ({"action": "stop"}, {}, 403, "page"),
    ],
)
def test_the_playground_refuses_what_it_does_not_know(client, asked, headers, code, said):
    answer = client.post("/api/playground", json=asked, headers=headers)
    assert answer.status_code == code and said in answer.json()["error"]


def test_a_port_in_use_is_named(logs, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["inspect", "-f", str(logs), "--port", str(port), "--no-browser"]) == 2
    assert f"Port {port} of 127.0.0.1 can't be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--export", "page.html"], "--export needs a run"),
        (["@last", "--export", "page.txt"], "must end with .html"),
        (["@last@7", "--export", "page.html"], "does not have the model @7"),
    ],
)
def test_a_mistake_leaves_no_file(logs, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", *words, "-f", str(logs)]) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())
