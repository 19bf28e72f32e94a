"""Secrets of every format that is recognised, made up from a seed: none of them opens anything."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable

_ALNUM = string.ascii_letters + string.digits
_URLSAFE = _ALNUM + "-_"
_HEX = "0123456789abcdef"


class _Maker(random.Random):
    def of(self, alphabet: str, length: int) -> str:
        """Drawn until it has a capital, a small letter and a digit, where the alphabet has them all."""
        while True:
            text = "".join(self.choices(alphabet, k=length))
            kinds = (str.isupper, str.islower, str.isdigit)
            if all(any(map(kind, text)) for kind in kinds if any(map(kind, alphabet))):
                return text

    def jwt(self) -> str:
        parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": self.of(_ALNUM, 12), "iat": 1516239022}]
        encoded = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts]
        return ".".join([*encoded, self.of(_URLSAFE, 43)])

    def pem(self, label: str, lines: int = 12) -> str:
        body = "\n".join(self.of(_ALNUM + "+/", 64) for _ in range(lines))
        return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"

    def card(self, prefix: str, length: int) -> str:
        digits = prefix + self.of(string.digits, length - len(prefix) - 1)
        doubled = [sum(divmod(2 * int(one), 10)) for one in digits[-1::-2]]
        return digits + str(-(sum(doubled) + sum(map(int, digits[-2::-2]))) % 10)


Template = Callable[[_Maker], tuple[str, str]]
"""The secret, and a text that it stands in."""


def _bare(make: Callable[[_Maker], str]) -> Template:
    def template(maker: _Maker) -> tuple[str, str]:
        secret = make(maker)
        return secret, f"Use {secret} for the deployment."

    return template


def _in(text: str, make: Callable[[_Maker], str]) -> Template:
    def template(maker: _Maker) -> tuple[str, str]:
        secret = make(maker)
        return secret, text.replace("@@", secret)

    return template


TEMPLATES: dict[str, Template] = {
    "AWS access key": _bare(lambda m: "AKIA" + m.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)),
    "AWS secret key": _in("AKIAIOSFODNN7EXAMPLE @@", lambda m: m.of(_ALNUM + "+/", 40)),
    "AWS secret key, named": _in("aws_secret_access_key = @@\n", lambda m: m.of(_ALNUM + "+/", 40)),
    "Google service account": _in(
        '{"type": "service_account", "private_key": "@@\\n"}', lambda m: m.pem("PRIVATE KEY").replace("\n", r"\n")
    ),
    "Google API key": _bare(lambda m: "AIza" + m.of(_URLSAFE, 35)),
    "Google OAuth token": _bare(lambda m: "ya29." + m.of(_URLSAFE, 80)),
    "Google client secret": _bare(lambda m: "GOCSPX-" + m.of(_URLSAFE, 28)),
    "Azure storage key": _in(
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;", lambda m: m.of(_ALNUM + "+/", 86) + "=="
    ),
    "Azure client secret": _bare(lambda m: m.of(_ALNUM, 3) + "8Q~" + m.of(_ALNUM + "~_.", 33) + "x"),
    "Azure signature": _in(
        "https://x.blob.core.windows.net/c/b?sv=2024&sig=@@&se=1", lambda m: m.of(_ALNUM, 43) + "%3D"
    ),
    "GitHub token": _bare(lambda m: "ghp_" + m.of(_ALNUM, 36)),
    "GitHub fine-grained token": _bare(lambda m: f"github_pat_{m.of(_ALNUM, 22)}_{m.of(_ALNUM, 59)}"),
    "GitLab token": _bare(lambda m: "glpat-" + m.of(_URLSAFE, 20)),
    "Slack token": _bare(lambda m: f"xoxb-{m.of(string.digits, 12)}-{m.of(string.digits, 12)}-{m.of(_ALNUM, 24)}"),
    "Slack webhook": _in(
        "https://hooks.slack.com/@@", lambda m: f"services/T{m.of('ABC123', 8)}/B{m.of('ABC123', 8)}/{m.of(_ALNUM, 24)}"
    ),
    "Stripe key": _bare(lambda m: "sk_live_" + m.of(_ALNUM, 24)),
    "OpenAI project key": _bare(lambda m: "sk-proj-" + m.of(_URLSAFE, 120)),
    "OpenAI key": _bare(lambda m: f"sk-{m.of(_ALNUM, 20)}T3BlbkFJ{m.of(_ALNUM, 20)}"),
    "OpenRouter key": _bare(lambda m: "sk-or-v1-" + m.of(_HEX, 64)),
    "Anthropic key": _bare(lambda m: f"sk-ant-api03-{m.of(_URLSAFE, 93)}AA"),
    "npm token": _bare(lambda m: "npm_" + m.of(_ALNUM, 36)),
    "PyPI token": _bare(lambda m: "pypi-AgEIcHlwaS5vcmc" + m.of(_URLSAFE, 150)),
    "Hugging Face token": _bare(lambda m: "hf_" + m.of(string.ascii_letters, 34)),
    "Twilio key": _bare(lambda m: "SK" + m.of(_HEX, 32)),
    "Twilio auth token": _in("auth_token: @@", lambda m: m.of(_HEX, 32)),
    "SendGrid key": _bare(lambda m: f"SG.{m.of(_URLSAFE, 22)}.{m.of(_URLSAFE, 43)}"),
    "Telegram token": _in("bot 123456789:@@ answers", lambda m: "AA" + m.of(_URLSAFE, 33)),
    "Discord token": _bare(lambda m: f"M{m.of(_ALNUM, 25)}.{m.of(_ALNUM, 6)}.{m.of(_ALNUM, 38)}"),
    "Discord webhook": _in("https://discord.com/api/webhooks/123456789012345678/@@", lambda m: m.of(_URLSAFE, 68)),
    "JSON web token": _bare(lambda m: m.jwt()),
    "Recollect key": _bare(lambda m: f"rk.ZGVmYXVsdA.{m.of(_ALNUM, 12)}.{m.of(_URLSAFE, 43)}"),
    "RSA private key": _bare(lambda m: m.pem("RSA PRIVATE KEY", 25)),
    "OpenSSH private key": _bare(lambda m: m.pem("OPENSSH PRIVATE KEY")),
    "PGP private key": _bare(lambda m: m.pem("PGP PRIVATE KEY BLOCK", 30)),
    "private key, cut off": _in("-----BEGIN EC PRIVATE KEY-----\n@@\n", lambda m: m.of(_ALNUM + "+/", 64)),
    "password in a URL": _in("postgresql://app:@@@db.internal:5432/shop", lambda m: m.of(_ALNUM + "!*", 12)),
    "password in a Redis URL": _in("redis://:@@@cache:6379/0", lambda m: m.of(_ALNUM, 16)),
    "password in a connection string": _in(
        "Server=db;Database=shop;User Id=app;Password=@@;Encrypt=yes", lambda m: m.of(_ALNUM + "!#", 12)
    ),
    "password": _in('DB_PASSWORD="@@"', lambda m: m.of(_ALNUM + "!#%", 14)),
    "password in chat": _in("The password is @@ by the way.", lambda m: m.of(_ALNUM, 14)),
    "secret key in YAML": _in("api_key: @@\n", lambda m: m.of(_ALNUM, 32)),
    "secret key in JSON": _in('{"client_secret": "@@"}', lambda m: m.of(_ALNUM + "-_", 40)),
    "secret key in a query": _in("https://api.example.com/v1?access_token=@@&page=2", lambda m: m.of(_ALNUM, 32)),
    "bearer token": _in("Authorization: Bearer @@", lambda m: m.of(_ALNUM + "-_", 40)),
    "DigitalOcean token": _bare(lambda m: "dop_v1_" + m.of(_HEX, 64)),
    "Databricks token": _bare(lambda m: "dapi" + m.of(_HEX, 32)),
    "Vault token": _bare(lambda m: "hvs." + m.of(_URLSAFE, 90)),
    "Linear key": _bare(lambda m: "lin_api_" + m.of(_ALNUM, 40)),
    "Shopify token": _bare(lambda m: "shpat_" + m.of(_HEX, 32)),
    "age key": _bare(lambda m: "AGE-SECRET-KEY-1" + m.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "Visa card": _bare(lambda m: m.card("4", 16)),
    "Visa card, in groups": _in("card @@ please", lambda m: " ".join(re.findall("....", m.card("4", 16)))),
    "Mastercard": _bare(lambda m: m.card("53", 16)),
    "American Express": _bare(lambda m: m.card("37", 15)),
}


def made(format: str, seed: int = 0) -> tuple[str, str]:
    """A secret of a format, and a text with it."""
    return TEMPLATES[format](_Maker(f"{format} {seed}"))
