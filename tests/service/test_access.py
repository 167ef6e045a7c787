"""Tokens with roles, the audit log, TLS: who may do what, and what is written about it."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_clients import (
    HTTP,
    SECRETS,
    WRITE,
    bearer,
    certificate,
    connect,
    role_tokens,
    served,
    trusting,
)
from tests.support.service_world import FakeRun
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.errors import InputError
from evenflow.service import Caller, Role, Token, serve
from evenflow.service.audit import AuditLog
from evenflow.service.tokens import TokenBook, token_from_file, token_from_variable

LONG = "a-token-of-some-length"
READS = ["/api/state", "/api/queries", "/api/plan", "/api/hot-keys", "/metrics", "/openapi.json"]
WRITES = [
    (Role.SUBMIT, "POST", "/api/queries", {"name": "n", "sql": "SELECT 1"}, "submit"),
    (Role.SUBMIT, "DELETE", "/api/queries/a", None, "cancel"),
    (Role.SUBMIT, "POST", "/api/queries/a/replace", {"sql": "SELECT 1"}, "replace"),
    (
        Role.SUBMIT,
        "POST",
        "/api/templates/a/subscriptions",
        {"rows": [{"subscription": "s"}]},
        "subscribe",
    ),
    (Role.SUBMIT, "DELETE", "/api/templates/a/subscriptions", {"names": ["s"]}, "unsubscribe"),
    (Role.OPERATE, "POST", "/api/queries/a/pin", {}, "pin"),
    (Role.OPERATE, "POST", "/api/queries/a/unpin", {}, "unpin"),
    (Role.OPERATE, "POST", "/api/queries/a/resume", {}, "resume"),
    (Role.OPERATE, "POST", "/api/streams/a/watermark", {}, "reset_watermark"),
    (Role.OPERATE, "POST", "/api/workers/1/drain", {}, "drain"),
    (Role.OPERATE, "POST", "/api/workers/1/activate", {}, "activate"),
    (Role.OPERATE, "POST", "/api/stop", {}, "stop"),
    (Role.OPERATE, "POST", "/api/rollback", {}, "rollback"),
    (Role.OPERATE, "POST", "/api/proposals/7/approve", {}, "approve"),
    (Role.OPERATE, "POST", "/api/proposals/7/reject", {}, "reject"),
]


def test_each_role_may_do_what_it_says_and_no_more(tmp_path: Path) -> None:
    run, log = FakeRun(), tmp_path / "audit.log"
    run.batch(0)
    with served(run, tokens=role_tokens(), audit=log) as server:
        for role in Role:
            headers = bearer(role)
            for path in READS:
                assert HTTP.get(f"{server.url}{path}", headers=headers).status_code == 200, path
            me = HTTP.get(f"{server.url}/api/me", headers=headers).json()
            assert me == {"name": str(role), "role": str(role), "tenant": None}
            for needed, method, path, body, command in WRITES:
                before = len(run.commands)
                found = HTTP.request(method, f"{server.url}{path}", headers=headers, json=body)
                allowed = role.includes(needed)
                assert found.status_code == (200 if allowed else 403), (role, path, found.text)
                assert len(run.commands) == before + allowed
                if allowed:
                    assert run.commands[-1][0] == command
                else:
                    assert f"needs the role {needed}" in found.json()["error"]
        paths = {route["path"] for route in _described(server)}
        assert paths == {path.split("?")[0] for path in _shapes()}  # no write is left out above
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 3 * len(WRITES)
    first = {k: v for k, v in lines[0].items() if k != "at"}
    assert first == {
        "token": "read",
        "client": "127.0.0.1",
        "command": "submit",
        "status": 403,
        "error": "token 'read' has the role read; this needs the role submit",
    }
    done = next(line for line in lines if line["token"] == Role.OPERATE)
    assert (done["command"], done["status"]) == ("submit", 200)
    assert json.loads(done["body"]) == {"name": "n", "sql": "SELECT 1"}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_reply_to_resume_names_the_rows_that_are_missing() -> None:
    with served(FakeRun()) as server:
        replies = [
            HTTP.post(f"{server.url}/api/queries/{name}/resume", json={}, headers=WRITE).json()[
                "message"
            ]
            for name in ("a", "b")
        ]
    assert "with its state before it failed and without the rows since then" in replies[0]
    assert "with its state before batch 12 and without the rows since then" in replies[1]


def _described(server: Any) -> list[dict[str, str]]:
    document = HTTP.get(f"{server.url}/openapi.json", headers=bearer(Role.READ)).json()
    return [
        {"path": f"{method.upper()} {path}"}
        for path, methods in document["paths"].items()
        for method in methods
        if method != "get"
    ]


def _shapes() -> list[str]:
    return [
        f"{method} "
        + path.replace("queries/a", "queries/{name}")
        .replace("templates/a", "templates/{name}")
        .replace("workers/1", "workers/{worker}")
        .replace("streams/a", "streams/{name}")
        .replace("proposals/7", "proposals/{number}")
        for _, method, path, _, _ in WRITES
    ]


def test_wrong_tokens_make_a_client_wait_and_are_noted(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    with served(tokens=role_tokens(), audit=log) as server:
        url = f"{server.url}/api/state"
        assert [HTTP.get(url).status_code for _ in range(20)] == [401] * 20  # no token, no guess
        wrong = {"Authorization": "Bearer a-wrong-token-of-some-length"}
        found = [HTTP.get(url, headers=wrong).status_code for _ in range(8)]
        assert found == [401] * 5 + [429] * 3
        refused = HTTP.get(url, headers=bearer(Role.READ))
        assert (refused.status_code, "wrong tokens" in refused.json()["error"]) == (429, True)
        assert int(refused.headers["retry-after"]) >= 1
        assert HTTP.get(f"{server.url}/healthz").status_code == 200
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["command"], line["status"]) for line in lines] == [("authenticate", 401)] * 5
    assert "a-wrong-token" not in log.read_text()


def test_the_single_token_goes_on_working(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENFLOW_TOKEN", LONG)
    with served() as server:
        monkeypatch.delenv("EVENFLOW_TOKEN")
        assert CliRunner().invoke(app, ["ps", "--url", server.url]).exit_code == 4
        monkeypatch.setenv("EVENFLOW_TOKEN", LONG)
        assert CliRunner().invoke(app, ["rollback", "--url", server.url]).exit_code == 0
        me = HTTP.get(f"{server.url}/api/me", headers={"Authorization": f"Bearer {LONG}"}).json()
        assert (me["name"], me["role"]) == ("default", "operate")


def test_a_tenant_is_part_of_the_token(tmp_path: Path) -> None:
    token = Token(Caller("team", Role.SUBMIT, "team_a"), LONG)
    log = tmp_path / "audit.log"
    with served(tokens=[token], audit=log) as server:
        headers = {**WRITE, "Authorization": f"Bearer {LONG}"}
        assert HTTP.get(f"{server.url}/api/me", headers=headers).json()["tenant"] == "team_a"
        HTTP.delete(f"{server.url}/api/queries/a", headers=headers)
    assert json.loads(log.read_text())["tenant"] == "team_a"


def test_secrets_come_from_a_variable_or_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, path = Caller("anna", Role.READ), tmp_path / "token"
    monkeypatch.setenv("ANNA", LONG)
    assert token_from_variable(caller, "ANNA").secret == LONG
    path.write_text(f"{LONG}\n")
    path.chmod(0o600)
    found = token_from_file(caller, path)
    assert found.secret == LONG
    assert LONG not in repr(found)
    path.chmod(0o640)
    with pytest.raises(InputError, match=r"others can read .* \(mode 0640\); chmod 600"):
        token_from_file(caller, path)
    with pytest.raises(InputError, match="No such file"):
        token_from_file(caller, tmp_path / "none")
    with pytest.raises(InputError, match="NOBODY is not set"):
        token_from_variable(caller, "NOBODY")


@pytest.mark.parametrize(
    ("secret", "said"),
    [("short", "16 characters, got 5"), ("a token with spaces in it", "a header cannot hold"),
     ("ein-geheimnis-ü-und-mehr", "a header cannot hold"), ("x" * 20 + "\x00", "cannot hold")],
)  # fmt: skip
def test_bad_tokens_are_refused_without_showing_them(secret: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Token(Caller("anna", Role.READ), secret)
    assert secret not in str(caught.value)


def test_two_callers_with_one_token_are_refused() -> None:
    with pytest.raises(InputError, match="'anna' and 'bob' are the same"):
        TokenBook([Token(Caller(name, Role.READ), LONG) for name in ("anna", "bob")])


def test_the_audit_log_is_bounded(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_bytes=2_000)
    for number in range(500):
        log.add(token="anna", command="submit", subject="\x1b[31m" + "x" * 5_000, status=number)  # noqa: S106
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.log", *(f"audit.log.{n}" for n in range(1, 5))]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 20_000
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    assert "\x1b" not in (tmp_path / "audit.log").read_text()


def test_tls_from_certificate_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = certificate(tmp_path)
    with served(tls=files, tokens=role_tokens()) as server, trusting(files) as client:
        assert server.url.startswith("https://")
        assert client.get(f"{server.url}/api/me", headers=bearer(Role.READ)).status_code == 200
        entered = client.get(f"{server.url}/?token={SECRETS[Role.READ]}")
        assert (entered.status_code, "secure" in entered.headers["set-cookie"].lower()) == (
            303,
            True,
        )
        with connect(server.port, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as plain:
            assert b"HTTP/1.1 200" not in plain.recv(65536)
        monkeypatch.setenv("SSL_CERT_FILE", str(files.certificate))
        monkeypatch.setenv("EVENFLOW_TOKEN", SECRETS[Role.OPERATE])
        done = CliRunner().invoke(app, ["rollback", "--url", server.url])
        assert done.exit_code == 0, done.output


def test_silent_tls_clients_keep_nobody_out(tmp_path: Path) -> None:
    from evenflow.service import Limits

    files = certificate(tmp_path)
    limits = Limits(connections=16)
    with served(tls=files, limits=limits) as server, trusting(files) as client:
        silent = [connect(server.port) for _ in range(60)]
        assert client.get(f"{server.url}/healthz").status_code == 200
        for connection in silent:
            connection.close()


def test_wrong_certificate_files_are_refused(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    files.key.write_text("no key")
    with pytest.raises(InputError, match="cannot use the certificate"):
        serve(FakeRun(), port=0, tls=files)


@pytest.mark.parametrize("encrypted", [False, True])
def test_other_hosts_need_a_token_and_should_have_tls(
    encrypted: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert "EVENFLOW_TOKEN" not in os.environ
    with pytest.raises(InputError, match="cannot be served without a token"):
        serve(FakeRun(), host="0.0.0.0", port=0)  # noqa: S104
    tls = certificate(tmp_path) if encrypted else None
    with served(host="0.0.0.0", tokens=role_tokens(), tls=tls):  # noqa: S104
        pass
    assert ("served without TLS" in caplog.text) == (not encrypted)
