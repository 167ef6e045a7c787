"""Creates the virtual environment, installs Evenflow into it and checks for Java.

Usage: python3 scripts/setup.py VENV base|dev [REQUIREMENT]

Uses only the standard library, since it runs before anything is installed. Running it again
updates an existing environment.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

MIN_PYTHON = (3, 11)
MIN_JAVA = 17
JAVA_PACKAGE = "openjdk-17-jre-headless"
BROWSER_PACKAGE = "chromium"


def main(venv: Path, extras: str, *requirements: str) -> None:
    """Set everything up, then touch a stamp file that make compares with pyproject.toml.

    Requirements are installed last: another version of Spark, for example.
    """
    if sys.version_info < MIN_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        stop(f"Python 3.11 or newer is needed, found {found}; try: make PYTHON=python3.12 ...")
    python = venv / "bin" / "python"
    if not has_pip(python):
        make_venv(venv)
    target = ".[dev]" if extras == "dev" else "."
    say(f"installing {target} into {venv} (the first time fetches Spark, some minutes)")
    run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip"])
    run([str(python), "-m", "pip", "install", "--quiet", "--editable", target])
    for requirement in requirements:
        run([str(python), "-m", "pip", "install", "--quiet", requirement])
    need_java()
    (venv / ".base").touch()
    if extras == "dev":
        need_browser()
        (venv / ".dev").touch()


def make_venv(venv: Path) -> None:
    """Create the environment; Debian needs an extra package for that."""
    create = [sys.executable, "-m", "venv", "--clear", str(venv)]
    if subprocess.run(create, capture_output=True, check=False).returncode == 0:
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not apt_install(f"python{version}-venv"):
        stop(f"{sys.executable} cannot create virtual environments; install python{version}-venv")
    run(create)


def has_pip(python: Path) -> bool:
    """Return whether the environment is complete; an interrupted set-up leaves it without pip."""
    probe = [str(python), "-m", "pip", "--version"]
    return (
        python.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    )


def need_java() -> None:
    """Check for Java 17 or newer, install it if possible, or stop."""
    if java_version() >= MIN_JAVA:
        return
    if not apt_install(JAVA_PACKAGE) or java_version() < MIN_JAVA:
        stop(
            f"Spark needs Java {MIN_JAVA} or newer, found {java_version() or 'none'}; install "
            f"{JAVA_PACKAGE} or point JAVA_HOME at a newer one"
        )


def need_browser() -> None:
    """Check for Chromium, which tests of the page need; install it if possible, or stop."""
    if not shutil.which(BROWSER_PACKAGE) and not apt_install(BROWSER_PACKAGE):
        stop(f"the tests of the page need {BROWSER_PACKAGE}; install it")


def java_version() -> int:
    """Return the major version of the Java that Spark would start, 0 if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return 0
    out = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    for line in out.splitlines():
        if "version" in line and '"' in line:
            parts = line.split('"')[1].split(".")
            return int(parts[1] if parts[0] == "1" else parts[0].split("-")[0])
    return 0


def apt_install(package: str) -> bool:
    """Install a Debian package if this user is allowed to; return whether it worked."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    say(f"installing {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        done = subprocess.run(
            ["apt-get", *step], env=environment, stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0:
            return False
    return True


def run(command: list[str]) -> None:
    """Run a command; stop if it fails."""
    if subprocess.run(command, check=False).returncode != 0:
        stop(f"command failed, see above: {' '.join(command)}")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"set-up: {text}", flush=True)


def stop(text: str) -> None:
    """Exit with an error message."""
    sys.exit(f"set-up: {text}")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in ("base", "dev"):
        stop("usage: python3 scripts/setup.py VENV base|dev [REQUIREMENT]")
    main(Path(sys.argv[1]), *sys.argv[2:])
