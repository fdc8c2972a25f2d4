"""The view of a project on Weights & Biases, made by W&B's own package against a server on this machine."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import wandb
from stable_baselines3 import PPO
from wandb_offline import offline

from sb3_ext.callbacks.tracking.dashboard import dashboard, make_workspace

pytest.importorskip("wandb_workspaces", reason="pip install wandb-workspaces")

NAMES = (
    "time/total_timesteps",
    "rollout/ep_rew_mean",
    "eval/step",
    "eval/mean_reward",
    "policy/entropy",
    "video/agent",
)


class Server(ThreadingHTTPServer):
    """Answers what a client asks about views, and keeps those that it is sent."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.views = {}
        self.asked = 0

    def answer(self, variables):
        self.asked += 1
        if "spec" in variables:
            self.views[variables["name"]] = {**variables, "id": "1"}
            return {"upsertView": {"view": {"id": "1", "name": variables["name"]}, "inserted": True}}
        found = self.views.get(variables.get("viewName"))
        edges = [] if found is None else [{"node": found}]
        return {"viewer": {"id": "1", "entity": "me"}, "project": {"allViews": {"edges": edges}}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer = json.dumps({"data": self.server.answer(json.loads(body).get("variables") or {})}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with offline(tmp_path):
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
        yield server
        wandb.teardown()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def layout():
    return dashboard(NAMES, PPO("MlpPolicy", "CartPole-v1", device="cpu"), env_id="CartPole-v1")


def run_of(server, is_offline=False):
    url = f"http://127.0.0.1:{server.server_port}/me/poles"
    return SimpleNamespace(offline=is_offline, disabled=False, project_url=url, entity="me", project="poles")


def test_the_first_run_makes_a_view_with_the_sections_and_ranges_of_the_dashboard(server, layout):
    assert make_workspace(layout, run_of(server))
    (view,) = server.views.values()
    assert (view["entityName"], view["projectName"], view["displayName"]) == ("me", "poles", "ppo on CartPole-v1")
    section = json.loads(view["spec"])["section"]
    assert section["settings"]["xAxis"] == "time/total_timesteps"
    sections = {part["name"]: part for part in section["panelBankConfig"]["sections"]}
    assert [name for name, part in sections.items() if part["isOpen"]] == ["Main curves", "Evaluation", "Videos"]
    panels = {panel["config"]["chartTitle"]: panel for part in sections.values() for panel in part["panels"]}
    entropy = panels["policy/entropy"]["config"]
    assert (entropy["yAxisMin"], entropy["yAxisMax"]) == (0.0, pytest.approx(0.6931, abs=1e-4))
    assert panels["eval/mean_reward"]["config"]["xAxis"] == "eval/step"
    assert panels["video/agent"]["viewType"] == "Media Browser"


def test_a_later_run_leaves_the_view_alone(server, layout):
    assert make_workspace(layout, run_of(server))
    before = json.dumps(server.views)
    assert not make_workspace(layout, run_of(server))
    assert json.dumps(server.views) == before


def test_an_offline_run_asks_no_server(server, layout):
    assert not make_workspace(layout, run_of(server, is_offline=True))
    assert server.asked == 0
