"""The service of a specification: tokens, certificates, ports."""

from pathlib import Path

import pytest
from tests.spec.test_load import GOOD, read, refusals
from tests.support.http_clients import certificate, trusting
from tests.support.service_world import FakeRun
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.cli.serve_spec import serve_spec, service_settings
from evenflow.errors import InputError

SECRET = "a-secret-of-some-length"  # noqa: S105 - what must not be shown
SERVICE = """\
service:
  port: 0
  health_port: 0
  tokens:
    anna: {variable: ANNA_TOKEN, role: operate}
    dashboard: {file: dashboard.token}
    team: {variable: TEAM_TOKEN, role: submit, tenant: team_a}
  tls: {certificate: certificate.pem, key: key.pem}
"""


def test_a_specification_names_tokens_roles_and_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificate(tmp_path)
    secrets = {name: f"{name}-of-some-length-more" for name in ("anna", "dashboard", "team")}
    monkeypatch.setenv("ANNA_TOKEN", secrets["anna"])
    monkeypatch.setenv("TEAM_TOKEN", secrets["team"])
    (tmp_path / "dashboard.token").write_text(secrets["dashboard"])
    (tmp_path / "dashboard.token").chmod(0o600)
    checked = read(tmp_path, GOOD + SERVICE)
    run = FakeRun()
    run.batch(0)
    server = serve_spec(run, checked, tmp_path / "audit.log")
    try:
        with trusting(files) as client:
            found = {
                name: client.get(
                    f"{server.url}/api/me", headers={"Authorization": f"Bearer {secret}"}
                ).json()
                for name, secret in secrets.items()
            }
            health = client.get(f"http://127.0.0.1:{server.health_port}/readyz")
    finally:
        server.stop()
    assert {name: me["role"] for name, me in found.items()} == {
        "anna": "operate",
        "dashboard": "read",
        "team": "submit",
    }
    assert found["team"]["tenant"] == "team_a"
    assert health.status_code == 200


@pytest.mark.parametrize(
    ("service", "said"),
    [
        (f"tokens: {{anna: {SECRET}}}", "service.tokens.anna"),
        (f"tokens: {{anna: {{token: {SECRET}}}}}", "unknown field"),
        (f"tokens: {{anna: {{variable: [{SECRET}]}}}}", "not shown"),
        (f"tokens: {{anna: {{variable: {SECRET}}}}}", "must be the name of an environment"),
        (f"tokens: [{SECRET}]", "not shown"),
        ("tokens: {anna: {role: read}}", "needs either `variable` or `file`"),
        ("tokens: {anna: {variable: A, file: b}}", "needs either `variable` or `file`"),
        ("tokens: {anna: {variable: A, role: king}}", "expected 'read', 'submit' or 'operate'"),
        ("tokens: {../anna: {variable: A}}", "cannot name a token"),
        ("tokens: {anna: {variable: A, tenant: a/b}}", "cannot name a tenant"),
        ("port: 70000", "service.port"),
    ],
)
def test_tokens_are_never_literal(tmp_path: Path, service: str, said: str) -> None:
    found = "\n".join(refusals(tmp_path, f"{GOOD}service:\n  {service}\n"))
    assert said in found
    assert SECRET not in found


def test_what_cannot_be_read_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANNA_TOKEN", raising=False)
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD + "service: {tokens: {anna: {variable: ANNA_TOKEN}}}\n")
    assert CliRunner().invoke(app, ["validate", str(path)]).exit_code == 0  # needs no secrets
    done = CliRunner().invoke(app, ["run", str(path)])
    assert (done.exit_code, "ANNA_TOKEN is not set" in done.stderr) == (2, True)
    assert "starting Spark" not in done.stderr
    checked = read(tmp_path, GOOD + "service: {tls: {certificate: none.pem, key: none.pem}}\n")
    with pytest.raises(InputError, match=r"cannot use the certificate .*none\.pem"):
        service_settings(checked)
