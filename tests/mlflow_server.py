"""A server that answers MLflow's client about one run, and keeps what it was sent."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

_INFO = {"run_id": "abc", "run_name": "ppo-1", "experiment_id": "7", "status": "RUNNING", "artifact_uri": "file:/tmp"}
_ANSWERS = {
    "experiments/create": {"experiment_id": "7"},
    "runs/create": {"run": {"info": _INFO, "data": {}}},
    "runs/get": {"run": {"info": _INFO, "data": {}}},
    "runs/update": {"run_info": _INFO},
}


@contextmanager
def mlflow_server():
    """Yields its address and the calls: paths and contents."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("/mlflow/")[2].partition("?")[0]
            calls.append((path, json.loads(body) if body else {}))
            is_known = path != "experiments/get-by-name" and "/mlflow/" in self.path
            missing = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "there is none"}
            answer = json.dumps(_ANSWERS.get(path, {}) if is_known else missing).encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        yield f"http://127.0.0.1:{server.server_port}", calls
    server.shutdown()
    server.server_close()
