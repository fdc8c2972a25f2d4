"""A server that answers W&B's client about the config and the history of one run."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import wandb

_VIEWER = {"id": "1", "entity": "me", "username": "me", "email": "", "flags": "{}", "teams": {"edges": []}}
_NO_PAGES = {"totalCount": 0, "edges": [], "pageInfo": {"endCursor": None, "hasNextPage": False}}
_EMPTY = ("sweepName", "group", "jobType", "commit", "description", "notes")


@contextmanager
def wandb_server(run_id, config, rows):
    """The client asks this server inside the block."""
    time = "2026-05-04T14:03:00Z"
    run = {
        **dict.fromkeys(_EMPTY),
        **{"id": "UnVuOjE=", "name": run_id, "displayName": run_id, "state": "crashed", "tags": [], "readOnly": False},
        **{"createdAt": time, "heartbeatAt": time, "systemMetrics": "{}", "summaryMetrics": "{}", "projectId": "1"},
        **{"user": {"name": "me", "username": "me"}, "historyKeys": {"keys": {}, "lastStep": len(rows) - 1}},
        **{"historyLineCount": len(rows), "parquetHistory": {"liveData": [], "parquetUrls": []}},
        "config": json.dumps({name: {"value": value} for name, value in config.items()}),
        "history": [json.dumps({"_step": step, **row}) for step, row in enumerate(rows)],
        "artifacts": _NO_PAGES,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = json.loads(body) if body.startswith(b"{") else {"query": ""}
            name = re.search(r"query\s+(\w+)", query["query"])
            answer = json.dumps({"data": self.answer(name and name[1], query.get("variables"))}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def answer(self, name, variables):
            if name in ("Viewer", "GetDefaultEntity"):
                return {"viewer": _VIEWER}
            if name == "ArtifactMembershipByName":
                return {"project": None}
            is_known = run_id in (variables or {}).values()
            return {"project": {"id": "1", "internalId": "1", "run": run if is_known else None}}

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wandb.teardown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        patch.setenv("WANDB_API_KEY", "0" * 40)
        patch.delenv("WANDB_MODE", raising=False)
        yield
        wandb.teardown()
    server.shutdown()
    server.server_close()
