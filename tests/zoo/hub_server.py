"""A stand-in for the Hugging Face Hub on this machine: the calls that an upload and a download of a model make.

It keeps the latest commit of each repository in memory, and offers no Xet storage: clients need HF_HUB_DISABLE_XET=1.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["LocalHub"]

_LFS_SUFFIXES = {".mp4", ".pkl", ".pth", ".zip"}
_REPO = r"(?P<repo>[^/]+/[^/]+)"
_KIND = "(?:models|spaces)"


class LocalHub:
    """
    A context manager that serves while it is entered.

    :ivar repos: the files of each repository by their path, by the repository's id
    :ivar forbidden: paths in repositories that nobody may download
    """

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.forbidden: set[str] = set()
        self.blobs: dict[str, bytes] = {}
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def revision(self, repo: str) -> str:
        """The name of the latest commit."""
        digest = hashlib.sha1(repo.encode())
        for path, content in sorted(self.repos[repo].items()):
            digest.update(path.encode() + hashlib.sha256(content).digest())
        return digest.hexdigest()

    def __enter__(self) -> LocalHub:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._route(("resolve", rf"/{_REPO}/resolve/[^/]+/(?P<path>.+)"))

    def do_GET(self) -> None:
        self._route(
            ("resolve", rf"/{_REPO}/resolve/[^/]+/(?P<path>.+)"),
            ("whoami", "/api/whoami-v2"),
            ("info", rf"/api/{_KIND}/{_REPO}(/revision/[^/]+)?"),
            ("tree", rf"/api/{_KIND}/{_REPO}/tree/[^/]+"),
        )

    def do_POST(self) -> None:
        self._body = self._read_body()
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            return self._answer_json({"error": "Invalid username or password."}, 401)
        self._route(
            ("create", "/api/repos/create"),
            ("validate_card", "/api/validate-yaml"),
            ("preupload", rf"/api/{_KIND}/{_REPO}/preupload/main"),
            ("commit", rf"/api/{_KIND}/{_REPO}/commit/main"),
            ("lfs_batch", rf"/(?:spaces/)?{_REPO}\.git/info/lfs/objects/batch"),
        )

    def do_PUT(self) -> None:
        self._body = self._read_body()
        self._route(("lfs_store", "/lfs/(?P<oid>[0-9a-f]{64})"))

    def _route(self, *routes: tuple[str, str]) -> None:
        path = unquote(urlsplit(self.path).path)
        for name, pattern in routes:
            if match := re.fullmatch(pattern, path):
                named = match.groupdict()
                if "repo" in named and named["repo"] not in self.hub.repos:
                    return self._answer_error(404, "RepoNotFound")
                return getattr(self, f"_{name}")(**named)
        self._answer_json({"error": f"The stand-in doesn't know {self.command} {path}"}, 501)

    def _create(self) -> None:
        wanted = json.loads(self._body)
        repo = f"{wanted['organization']}/{wanted['name']}"
        exists = repo in self.hub.repos
        self.hub.repos.setdefault(repo, {".gitattributes": b"*.zip filter=lfs diff=lfs merge=lfs -text\n"})
        self._answer_json({"url": f"{self.hub.url}/{repo}"}, 409 if exists else 200)

    def _whoami(self) -> None:
        self._answer_json({"type": "user", "name": "me", "auth": {"type": "access_token"}})

    def _info(self, repo: str) -> None:
        siblings = [{"rfilename": path} for path in self.hub.repos[repo]]
        self._answer_json({"id": repo, "sha": self.hub.revision(repo), "siblings": siblings})

    def _tree(self, repo: str) -> None:
        files = self.hub.repos[repo].items()
        self._answer_json([{"type": "file", "path": path, "size": len(c), "oid": _etag(c)} for path, c in files])

    def _validate_card(self) -> None:
        self._answer_json({"errors": [], "warnings": []})

    def _preupload(self, repo: str) -> None:
        paths = [file["path"] for file in json.loads(self._body)["files"]]
        self._answer_json(
            {"files": [{"path": path, "uploadMode": _upload_mode(path), "shouldIgnore": False} for path in paths]}
        )

    def _lfs_batch(self, repo: str) -> None:
        objects = json.loads(self._body)["objects"]
        for wanted in objects:
            if wanted["oid"] not in self.hub.blobs:
                wanted["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{wanted['oid']}"}}
        self._answer_json({"transfer": "basic", "objects": objects})

    def _lfs_store(self, oid: str) -> None:
        if hashlib.sha256(self._body).hexdigest() != oid:
            return self._answer_json({"error": f"The content sent is not that of {oid}"}, 400)
        self.hub.blobs[oid] = self._body
        self._answer_json({})

    def _commit(self, repo: str) -> None:
        files = self.hub.repos[repo]
        for line in self._body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            elif entry["key"] != "header":
                return self._answer_json({"error": f"The stand-in doesn't know {entry['key']!r}"}, 501)
        revision = self.hub.revision(repo)
        self._answer_json({"commitOid": revision, "commitUrl": f"{self.hub.url}/{repo}/commit/{revision}"})

    def _resolve(self, repo: str, path: str) -> None:
        if path in self.hub.forbidden:
            return self._answer_error(403, "Forbidden")
        if path not in self.hub.repos[repo]:
            return self._answer_error(404, "EntryNotFound", {"X-Repo-Commit": self.hub.revision(repo)})
        content = self.hub.repos[repo][path]
        self._answer(200, content, {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": self.hub.revision(repo)})

    def _read_body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer_json(self, answer: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _answer_error(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._answer(status, b"", {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})})

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _upload_mode(path: str) -> str:
    return "lfs" if PurePosixPath(path).suffix in _LFS_SUFFIXES else "regular"
