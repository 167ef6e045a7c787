"""What is in deploy/ fits the program: its metrics, its options, the text of its shell scripts."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from tests.support.http_clients import served
from tests.support.service_world import FakeRun

from evenflow.spec import load_spec

DEPLOY = Path(__file__).parents[1] / "deploy"
CHART = DEPLOY / "helm/evenflow"
NAME = re.compile(r"\bevenflow_\w+")


def expressions() -> Iterator[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())
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


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
def test_helm_renders_the_chart() -> None:
    done = subprocess.run(
        ["helm", "template", "market", str(CHART), "--set", "secret=flow"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert "StatefulSet" in kinds
