"""The formats of secrets that are recognised: keys of known providers, private keys, passwords, card numbers.

Each format names hints: every text with such a secret contains one of them, so that ordinary text is dismissed by
looking for a few short strings, and a pattern runs only where it may match. Every pattern is linear: what repeats is
bounded, or cannot match in two ways. To recognise another format, add a line to `FORMATS`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise


def always(secret: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFormat:
    """How one kind of secret is recognised. The group `secret` of the pattern is masked, else all of it."""

    kind: str
    """What it is called in marks, receipts and errors."""
    hints: tuple[str, ...]
    """One of them is in every text that has such a secret: in small letters where `any_case`."""
    pattern: re.Pattern[str]
    is_anchored: bool = True
    """The pattern matches where a hint begins; else it is looked for in the whole text."""
    beside: tuple[str, ...] = ("",)
    """One of these is in the text, too."""
    least: int = 0
    """How long a word of the text must be for it."""
    gate: re.Pattern[str] | None = None
    """What every text with such a secret has, whatever stands around it, and few others: quicker to look for."""
    is_likely: Callable[[str], bool] = always
    any_case: bool = False
    is_random: bool = True
    """Long and random, so that nobody can guess it from a hash of it; passwords and card numbers are not."""


LEAST_OF_A_TOKEN = 20


def _token(kind: str, hints: str, pattern: str, is_likely: Callable[[str], bool] = always) -> SecretFormat:
    """A key that its first characters give away; it does not begin in the middle of a word."""
    return SecretFormat(
        kind=kind,
        hints=tuple(hints.split()),
        pattern=re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})"),
        least=LEAST_OF_A_TOKEN,
        is_likely=is_likely,
    )


# -- how random a text looks -------------------------------------------------------------------------------------------

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_PLACEHOLDER = re.compile(
    r"""^\W*$ | ^(.)\1*$ | x{4} | \*{3} | \.{3} | … | [<>{}\[\]()] | \$[\w(] | ^%[(sd] | ^%\w+%$
    | example | placeholder | change_?me | redacted | dummy | sample | your[_-]?\w | 1234567 | abcdef""",
    re.IGNORECASE | re.VERBOSE,
)
_PLACEHOLDER_IN_URL = re.compile(
    r"""\W*|(.)\1*|[<{$\[%].*|.*[>}\]]|your.*|pass|password|passwd|pwd?|secret|token|user|username|changeme|redacted""",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::|/)[A-Za-z_]\w*)+$|[\w.]+\(|[./~@]|https?:", re.ASCII)


def entropy(text: str) -> float:
    """Bits for each character."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


def _changes(text: str) -> int:
    """How often letters, capitals, digits and signs follow one another: often in what is random, rarely in words."""
    classes = [
        "a" if one.islower() else "A" if one.isupper() else "1" if one.isdigit() else "."
        for one in text
        if one not in "-_."
    ]
    return sum(one != other for one, other in pairwise(classes))


def _is_written_by_people(value: str) -> bool:
    """A placeholder, a name or a path, as code and documentation have them in the place of a secret."""
    return bool(_PLACEHOLDER.search(value) or _CODE.match(value) or _UUID.fullmatch(value))


def is_random_key(value: str) -> bool:
    """Sixteen characters or more that look drawn at random. A name in code has one digit at most, and long words."""
    if len(value) < 16 or _is_written_by_people(value) or not any(map(str.isalpha, value)):
        return False
    least = 0.25 if sum(map(str.isdigit, value)) >= 2 else 0.4
    return entropy(value) >= 3 and _changes(value) >= least * len(value)


def is_strong_password(value: str) -> bool:
    """Eight characters or more, and not a word with a number behind it."""
    if len(value) < 8 or _is_written_by_people(value) or not any(map(str.isdigit, value)):
        return False
    return any(map(str.isalpha, value)) and _changes(value) >= 3 and entropy(value) >= 2.5


def _is_mixed(value: str) -> bool:
    """Capitals, small letters and digits: no hash, which is hexadecimal, and no word."""
    return bool(re.search("[A-Z]", value) and re.search("[a-z]", value) and re.search("[0-9]", value))


def _has_capitals(value: str) -> bool:
    """And small letters: a name in code is written with either."""
    return bool(re.search("[A-Z]", value) and re.search("[a-z].*[a-z]", value[4:]))


def _is_aws_secret(value: str) -> bool:
    return _is_mixed(value) and entropy(value) >= 4 and _changes(value) >= 12


def _is_password_in_url(value: str) -> bool:
    return not _PLACEHOLDER_IN_URL.fullmatch(value)


def _is_password_in_connection_string(value: str) -> bool:
    return _is_password_in_url(value) and not _CODE.match(value)


# -- numbers with check digits -----------------------------------------------------------------------------------------

_CARD_PREFIX = re.compile(
    r"""(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}
    |6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[689]\d)\d{11}|62\d{14,17})""",
    re.VERBOSE,
)


def is_card_number(text: str) -> bool:
    """A number of a known issuer whose check digit is right (Luhn)."""
    digits = re.sub("[ -]", "", text)
    if not _CARD_PREFIX.fullmatch(digits) or len(set(digits)) == 1:
        return False
    odd, even = digits[-1::-2], digits[-2::-2]
    return (sum(map(int, odd)) + sum(sum(divmod(2 * int(one), 10)) for one in even)) % 10 == 0


def _is_iban(text: str) -> bool:
    joined = text.replace(" ", "")
    return int("".join(str(int(one, 36)) for one in joined[4:] + joined[:4])) % 97 == 1


# -- assignments -------------------------------------------------------------------------------------------------------

_PASSWORD_NAMES = r"pass(?:word|wd|phrase|code)|pwd"
_KEY_NAMES = (
    r"(?:(?<=api)|(?<=api[_-])|(?<=access)|(?<=access[_-])|(?<=auth[_-])|(?<=account)|(?<=account[_-])|(?<=master[_-])"
    r"|(?<=signing[_-])|(?<=encryption[_-])|(?<=private[_-])|(?<=secret[_-])|(?<=license[_-]))key|secret|token|credentials?"
)
_ASSIGNED = (
    r"""(?:\\?["'])?[ \t]{0,4}(?:=>|:=|={1,2}|:|[ ]is[ ])[ \t]{0,4}"""
    r"""(?:\\?["'`](?P<quoted>[^\s"'`\\]{8,256})(?=\\?["'`])"""
    r"""|(?P<bare>(?:[^\s"'`\\,;&<>)}\]]|&(?![A-Za-z_]{1,30}=)){8,256}))"""
)
_NAME_OF_PASSWORD = re.compile(rf"(?:{_PASSWORD_NAMES})$", re.IGNORECASE)
_NAME_OF_KEY = re.compile(rf"(?:{_KEY_NAMES})$", re.IGNORECASE)
PASSWORD, KEY_BY_NAME = "password", "secret key"


def kind_by_name(name: str, value: str) -> str | None:
    """What a value is, by the name it has in an object: the same as in `name=value`."""
    if not 8 <= len(value) <= 256 or any(map(str.isspace, value)):
        return None
    if _NAME_OF_PASSWORD.search(name) and is_strong_password(value):
        return PASSWORD
    return KEY_BY_NAME if _NAME_OF_KEY.search(name) and is_random_key(value) else None


# -- the formats -------------------------------------------------------------------------------------------------------

LONGEST_PRIVATE_KEY = 40_000
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:(?:(?!-----)[\s\S]){{20,{LONGEST_PRIVATE_KEY}}}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
    r"""|(?:(?:[\s"'+,>|]|\\[nr]){0,20}[A-Za-z0-9+/=]{20,200})+)"""
)

TOKENS: tuple[SecretFormat, ...] = (
    _token("AWS access key", "AKIA ASIA ABIA ACCA", r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _token("Google API key", "AIza", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _token("Google OAuth token", "ya29. GOCSPX-", r"ya29\.[A-Za-z0-9_-]{20,2000}|GOCSPX-[A-Za-z0-9_-]{28}"),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    _token("GitLab token", "glpat- gldt- glrt- glptt-", r"gl(?:pat|dt|rt|ptt)-[A-Za-z0-9_.-]{20,255}"),
    _token("GitLab token", "glcbt- glsoat- glffct- glimt-", r"gl(?:cbt|soat|ffct|imt)-[A-Za-z0-9_.-]{20,255}"),
    _token("Slack token", "xox", r"xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,255}"),
    _token("Slack token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{20,255}"),
    _token("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,247}"),
    _token("Stripe key", "whsec_", r"whsec_[A-Za-z0-9+/=]{32,100}"),
    _token("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,255}"),
    _token("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,255}"),
    _token("OpenAI key", "sk-", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    _token("API key", "sk-", r"sk-[A-Za-z0-9-]{32,255}", is_random_key),
    _token("API key", "gsk_ r8_", r"(?:gsk|r8)_[A-Za-z0-9]{37,120}", is_random_key),
    _token("API key", "xai- pplx- nvapi-", r"(?:xai|pplx|nvapi)-[A-Za-z0-9_-]{40,120}", is_random_key),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("PyPI token", "pypi-Ag", r"pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZ)[A-Za-z0-9_-]{50,1000}"),
    _token("Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{34,40}(?![A-Za-z0-9])", _has_capitals),
    _token("Twilio key", "SK", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("SendGrid key", "SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    _token("JSON web token", "eyJ", r"eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,16000}\.[A-Za-z0-9_-]{10,2000}"),
    _token("Recollect key", "rk.", r"rk\.[A-Za-z0-9_=-]{1,400}\.[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9_-]{43}(?![\w-])"),
    _token("DigitalOcean token", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _token("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _token("Databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?(?![a-f0-9])"),
    _token("Vault token", "hvs. hvb.", r"hv[sb]\.[A-Za-z0-9_-]{24,300}"),
    _token("Grafana token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    _token("Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}"),
    _token("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,50}"),
    _token("Postman key", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    _token("Mailgun key", "key-", r"key-[a-f0-9]{32}(?![a-f0-9])"),
    _token("Square token", "sq0", r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43}"),
    _token("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
)  # fmt: skip

FORMATS: tuple[SecretFormat, ...] = (
    SecretFormat(kind="private key", hints=("-----BEGIN ",), pattern=re.compile(_PRIVATE_KEY)),
    SecretFormat(
        kind="private key",
        hints=("Private-Lines:",),
        pattern=re.compile(r"Private-Lines: \d+(?:\r?\n[A-Za-z0-9+/=]{1,100})+"),
    ),
    *TOKENS,
    SecretFormat(
        kind="AWS secret key",
        hints=("AKIA", "ASIA", "aws_secret", "AWS_SECRET", "SecretAccessKey", "secretAccessKey"),
        pattern=re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"),
        is_anchored=False,
        least=40,
        is_likely=_is_aws_secret,
    ),
    SecretFormat(
        kind="Azure key",  # without its name it would look like a hash in a lock file
        hints=("AccountKey=", "SharedAccessKey="),
        pattern=re.compile(r"(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/]{40,120}={0,2})"),
        least=50,
    ),
    SecretFormat(
        kind="Azure signature",
        hints=("?sig=", "&sig="),
        pattern=re.compile(r"[?&]sig=(?P<secret>[A-Za-z0-9%/+]{40,90}(?:%3D|=){0,2})"),
        least=40,
    ),
    SecretFormat(
        kind="Azure client secret",
        hints=("8Q~",),
        pattern=re.compile(r"(?<![\w.~-])[\w.~-]{3}8Q~[\w.~-]{31,34}", re.ASCII),
        is_anchored=False,
        least=37,
    ),
    SecretFormat(
        kind="Slack webhook",
        hints=("hooks.slack.com/",),
        pattern=re.compile(r"hooks\.slack\.com/(?P<secret>[a-z]{1,20}/[A-Z0-9]{1,20}/[A-Za-z0-9/]{16,120})"),
    ),
    SecretFormat(
        kind="Discord webhook",
        hints=("/api/webhooks/",),
        pattern=re.compile(r"/api/webhooks/\d{10,25}/(?P<secret>[A-Za-z0-9_-]{40,120})"),
    ),
    SecretFormat(
        kind="Discord token",
        hints=(".",),
        pattern=re.compile(
            r"[MNO](?<![\w.-].)[A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![\w-])", re.ASCII
        ),
        is_anchored=False,
        least=58,
        is_likely=_is_mixed,
    ),
    SecretFormat(
        kind="Telegram token",
        hints=(":AA",),
        pattern=re.compile(r"(?<=\d{8}):(?P<secret>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])"),
        least=44,
    ),
    SecretFormat(
        kind="password in a URL",
        hints=("://",),
        beside=("@",),
        pattern=re.compile(r"""://[^\s/?#:@"'<>`]{0,255}:(?P<secret>[^\s/?#@"'<>`]{1,255})@(?=[\w\[%{$.-])"""),
        is_likely=_is_password_in_url,
        is_random=False,
    ),
    SecretFormat(
        kind="password in a connection string",
        hints=("password=", "pwd="),
        beside=("server=", "host=", "data source=", "user id=", "uid="),
        pattern=re.compile(
            r"""(?:password|pwd)=(?P<secret>[^;"'\s]{1,128})(?=;)"""
            r"""|(?:(?<=;)|(?<=; ))(?:password|pwd)=(?P<last>[^;"'\s]{1,128})""",
            re.IGNORECASE,
        ),
        any_case=True,
        is_likely=_is_password_in_connection_string,
        is_random=False,
    ),
    SecretFormat(
        kind="bearer token",
        hints=("bearer ", "authorization"),
        pattern=re.compile(
            r"""(?:bearer|authorization["']?[:=]? {0,4}["']?(?:basic|token)) {1,4}"""
            r"(?P<secret>[A-Za-z0-9._~+/-]{16,2000}={0,2})",
            re.IGNORECASE,
        ),
        any_case=True,
        is_likely=is_random_key,
    ),
    SecretFormat(
        kind=PASSWORD,
        hints=("passw", "passp", "passc", "pwd"),
        pattern=re.compile(rf"(?:{_PASSWORD_NAMES}){_ASSIGNED}", re.IGNORECASE),
        any_case=True,
        is_likely=is_strong_password,
        is_random=False,
    ),
    SecretFormat(
        kind=KEY_BY_NAME,
        hints=("key", "secret", "token", "credential"),
        pattern=re.compile(rf"(?:{_KEY_NAMES}){_ASSIGNED}", re.IGNORECASE),
        any_case=True,
        is_likely=is_random_key,
    ),
    SecretFormat(
        kind="card number",
        hints=("",),
        pattern=re.compile(
            r"\d(?<![\w.,/=+-].)(?:\d{3}([ -])\d{4}\1\d{4}\1\d{1,4}|\d{3}([ -])\d{6}\2\d{4,5}|\d{12,18})"
            r"(?![\w-]|[.,]\d)",
            re.ASCII,
        ),
        is_anchored=False,
        gate=re.compile("[0-9]{4}(?:[ -][0-9]{4}|[0-9]{9})"),
        is_likely=is_card_number,
        is_random=False,
    ),
)

IBAN = SecretFormat(
    kind="bank account (IBAN)",
    hints=("",),
    pattern=re.compile(r"[A-Z](?<![A-Za-z0-9].)[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"),
    is_anchored=False,
    gate=re.compile(r"[A-Z][A-Z]\d\d"),
    is_likely=_is_iban,
    is_random=False,
)
"""Not a secret to everybody, so it is looked for only where the settings ask for it."""
