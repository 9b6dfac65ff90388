"""A server on 127.0.0.1 that speaks as much of the Hub's protocol as `huggingface_hub` needs to download a model.

Small files are answered directly; large ones (safetensors and pickles) with a redirect to another host, as by the Hub.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin", ".h5")


@dataclass
class Repo:
    """A repository: the files of each commit, and which commit each branch or tag points to."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    token: str = ""  # private: only whoever sends this token may see it

    def commit(self, files: dict[str, bytes], *refs: str) -> str:
        """Add a commit and let `refs` point to it."""
        digest = hashlib.sha1(json.dumps([len(self.commits), sorted(files)]).encode()).hexdigest()
        self.commits[digest] = dict(files)
        self.refs |= dict.fromkeys(refs or ("main",), digest)
        return digest


class HubServer(ThreadingHTTPServer):
    """The server.

    Attributes:
        repos: the repositories by name.
        asked: the files that were asked for, whether by HEAD or GET.
        requests: the number of all requests.
        cut: names of files whose transfer breaks off halfway.
        status: if not 0, the answer to everything.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, Repo] = {}
        self.asked: set[str] = set()
        self.cut: set[str] = set()
        self.requests = self.status = 0
        self.blobs: dict[str, tuple[str, bytes]] = {}  # name and contents of large files by digest
        threading.Thread(target=lambda: self.serve_forever(poll_interval=0.02), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, name: str, folder: Path, *refs: str, **more: bytes | None) -> str:
        """Commit the files of a folder, changed by `more`, where None removes a file; return the commit."""
        files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for key, data in more.items():
            files.pop(key, None) if data is None else files.update({key: data})
        return self.repos.setdefault(name, Repo()).commit(files, *refs)


class Handler(BaseHTTPRequestHandler):
    """Answers `/api/models/REPO[/revision/REV]`, `/REPO/resolve/REV/FILE` and `/large/DIGEST`."""

    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.requests += 1
        path = urlsplit(self.path).path
        if self.server.status:
            self.answer(self.server.status)
        elif path.startswith("/api/models/"):
            name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            self.with_repo(name, unquote(revision) or "main", self.info)
        elif "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            revision, _, file = rest.partition("/")
            self.with_repo(name, unquote(revision), lambda *at: self.resolve(*at, unquote(file)))
        elif path.removeprefix("/large/") in self.server.blobs:
            self.send_file(*self.server.blobs[path.removeprefix("/large/")], {})
        else:
            self.answer(404)

    def with_repo(self, name: str, revision: str, then: Any) -> None:
        repo = self.server.repos.get(name)
        if repo is None or (repo.token and self.headers.get("Authorization") != f"Bearer {repo.token}"):
            if "Authorization" in self.headers:
                return self.answer(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return self.answer(401, {"X-Error-Message": "Invalid username or password."})
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            return self.answer(404, {"X-Error-Code": "RevisionNotFound"})
        return then(name, repo, commit)

    def info(self, name: str, repo: Repo, commit: str) -> None:
        files = [{"rfilename": file} for file in repo.commits[commit]]
        facts = {"id": name, "modelId": name, "sha": commit, "siblings": files, "private": bool(repo.token)}
        self.answer(200, {"Content-Type": "application/json"}, json.dumps(facts).encode())

    def resolve(self, name: str, repo: Repo, commit: str, file: str) -> None:
        self.server.asked.add(file)
        if repo.gated:
            return self.answer(403, {"X-Error-Code": "GatedRepo"})
        if file not in repo.commits[commit]:
            return self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        data = repo.commits[commit][file]
        digest = hashlib.sha256(data).hexdigest()
        facts = {"X-Repo-Commit": commit, "ETag": f'"{digest}"'}
        if not file.endswith(LARGE):
            return self.send_file(file, data, facts)
        self.server.blobs[digest] = (file, data)
        linked = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{digest}"'}
        return self.answer(
            302, {**facts, **linked, "Location": f"http://localhost:{self.server.server_port}/large/{digest}"}
        )

    def send_file(self, file: str, data: bytes, facts: dict[str, str]) -> None:
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if begin:
            facts = {**facts, "Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        self.answer(206 if begin else 200, facts, data[begin:], cut=file in self.server.cut)

    def answer(self, status: int, facts: dict[str, str] | None = None, body: bytes = b"", *, cut: bool = False) -> None:
        self.send_response(status)
        for key, value in {**(facts or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = self.close_connection or cut

    def log_message(self, *_: object) -> None:
        """Say nothing."""
