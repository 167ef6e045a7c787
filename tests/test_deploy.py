"""What is in deploy/ fits the program: its metrics, its options, the text of its shell scripts."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from scripts.services import UnavailableError, go_program
from tests.support.http_clients import served
from tests.support.service_world import FakeRun

from evenflow.spec import load_spec

DEPLOY = Path(__file__).parents[1] / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yaml"
CHART = DEPLOY / "helm/evenflow"
NAME = re.compile(r"\bevenflow_\w+")


def expressions() -> Iterator[str]:
    rules = yaml.safe_load(ALERTS.read_text())
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    run = FakeRun()
    run.batch(0)
    with served(run) as server:
        text = httpx.get(f"{server.url}/metrics", timeout=30).text
    there = set(NAME.findall(text))
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(used) > 10
    assert used <= there


def test_the_specification_of_the_chart_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in values["env"].items():
        monkeypatch.setenv(name, value)
    spec = tmp_path / "flow.yaml"
    spec.write_text(values["spec"])
    settings = re.findall(
        r'- (?:--set\n +- )"?(service[^"\n]+)', (CHART / "templates/flow.yaml").read_text()
    )
    assert len(settings) == 2
    assert load_spec(spec, settings).spec.service.host == "0.0.0.0"  # noqa: S104


def test_the_shell_script_of_the_image_parses() -> None:
    subprocess.run(["sh", "-n", str(DEPLOY / "entrypoint.sh")], check=True)


def run_tool(name: str, *arguments: str, text: str = "") -> str:
    """Run a real program over what is in deploy/; it fails if the program finds a fault."""
    try:
        program = go_program(name)
    except UnavailableError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_helm_accepts_and_renders_the_chart() -> None:
    run_tool("helm", "lint", "--strict", str(CHART), "--set", "secret=flow")
    chart = run_tool(
        "helm", "template", "market", str(CHART), "--set", "secret=flow",
        "--set", "secretKeys={AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY}",
        "--set-json", 'sparkConf={"spark.jars": "local:///opt/jars/a.jar"}',
    )  # fmt: skip
    rendered = {document["kind"]: document for document in yaml.safe_load_all(chart)}
    assert {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "StatefulSet"} < rendered.keys()
    settings = rendered["ConfigMap"]["data"]["spark-defaults.conf"].splitlines()
    assert "spark.kubernetes.driver.pod.name market-0" in settings
    assert "spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID flow:AWS_ACCESS_KEY_ID" in (
        settings
    )
    assert "spark.jars local:///opt/jars/a.jar" in settings
    [pod] = rendered["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert pod["args"][:3] == ["evenflow", "run", "/etc/evenflow/flow.yaml"]


@pytest.mark.slow
def test_promtool_accepts_rules_expressions_and_metrics() -> None:
    rules = run_tool("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))
    assert "SUCCESS: 8 rules found" in rules
    for expression in expressions():
        run_tool("promtool", "--experimental", "promql", "format", plain(expression))


def plain(expression: str) -> str:
    """An expression of the dashboard as Grafana sends it."""
    return expression.replace("$__rate_interval", "5m").replace("$__interval", "1m")
