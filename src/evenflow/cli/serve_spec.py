"""The service of a specification: its address, tokens and certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.errors import InputError, SetupError
from evenflow.spec import CheckedSpec

if TYPE_CHECKING:
    from evenflow.service import RunProtocol, Server, Token
    from evenflow.spec.service_model import TokenSpec


def serve_spec(run: "RunProtocol", checked: CheckedSpec, audit: Path | None) -> "Server":
    """Serve a run as its specification says; commands are written to `audit`."""
    from evenflow.service import serve

    try:
        return serve(run, audit=audit, **service_settings(checked))
    except InputError as error:
        if "cannot listen" in str(error):
            raise SetupError(f"{error} with --port, or use --no-page") from None
        raise


def service_settings(checked: CheckedSpec) -> dict[str, Any]:
    """Return the arguments of `serve`; refuse tokens and certificates that cannot be read."""
    from evenflow.service import TlsFiles

    spec = checked.spec.service
    tls = None
    if spec.tls is not None:
        certificate, key = checked.resolve(spec.tls.certificate), checked.resolve(spec.tls.key)
        tls = TlsFiles(Path(certificate), Path(key))
        tls.context()
    return {
        "host": spec.host,
        "port": spec.port,
        "tokens": [read_token(checked, name, token) for name, token in spec.tokens.items()],
        "tls": tls,
        "health_port": spec.health_port,
    }


def read_token(checked: CheckedSpec, name: str, spec: "TokenSpec") -> "Token":
    """Read the secret of a token from where the specification says it is."""
    from evenflow.service import Caller, Role
    from evenflow.service.tokens import token_from_file, token_from_variable

    caller = Caller(name, Role(spec.role), spec.tenant)
    if spec.variable is not None:
        return token_from_variable(caller, spec.variable)
    return token_from_file(caller, Path(checked.resolve(str(spec.file))))
