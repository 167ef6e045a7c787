"""Fields of `service`."""

from typing import Literal

from pydantic import Field, model_validator

from evenflow.spec.base import SpecModel


class TokenSpec(SpecModel):
    """Who may use the service. The secret itself is never in the file."""

    variable: str | None = Field(None, description="Environment variable that holds the token.")
    file: str | None = Field(None, description="File that holds it, with mode 0600.")
    role: Literal["read", "submit", "operate"] = Field(
        "read", description="What it may do; `submit` includes `read`, `operate` everything."
    )
    tenant: str | None = Field(None, description="The tenant that it acts for; default: any.")

    @model_validator(mode="after")
    def _validate_secret(self) -> "TokenSpec":
        if (self.variable is None) == (self.file is None):
            raise ValueError("needs either `variable` or `file`")
        return self


class TlsSpec(SpecModel):
    """Certificate of the service, PEM files."""

    certificate: str = Field(description="Certificate chain.")
    key: str = Field(description="Private key.")


class ServiceSpec(SpecModel):
    """The page and the HTTP API."""

    host: str = Field(
        "127.0.0.1", description="Address to listen on; others than the loopback need a token."
    )
    port: int = Field(8080, description="Port; 0 picks a free one.", ge=0, le=65535)
    health_port: int | None = Field(
        None, description="Port of its own for `/healthz` and `/readyz`.", ge=0, le=65535
    )
    tokens: dict[str, TokenSpec] = Field({}, description="Tokens by name.")
    tls: TlsSpec | None = Field(None, description="TLS; default: none.")
