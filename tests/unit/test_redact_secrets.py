"""Secrets and patient data are masked, ordinary code, hashes and prose are not."""

from __future__ import annotations

import pytest

from agentloop.redact import MASK, Redactor, redact
from agentloop.redact.patterns import known_form

# put together from parts, so that no scanner takes this file for a leak
TOKEN = "gh" + "p_" + "Zt5" * 12
STRIPE = "sk_" + "live_" + "9aB8cD7eF6gH5iJ4"
AWS = "AK" + "IA" + "QWERTYUIOP234567"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiI5OTkifQ." + "q8f3hJ2kLm9"
SLACK = "xo" + "xb-" + "123456789012-abcdefABCDEF"

SECRETS = {
    "connection string": ("postgres://app:Tr0ub4dor3x@db.example:5432/x", "Tr0ub4dor3x"),
    "url with token only": ("redis://:n0tAword77@cache/0", "n0tAword77"),
    "bearer": ("curl -H 'Authorization: Bearer " + TOKEN + "'", TOKEN),
    "basic": ("Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpwYXNzd29yZDEyMw"),
    "github": (f"token {TOKEN} here", TOKEN),
    "stripe": (f"export KEY={STRIPE}", STRIPE),
    "aws": (f"aws_access_key_id = {AWS}", AWS),
    "jwt": (f"cookie jwt {JWT};", JWT),
    "slack": (f"hook {SLACK}", SLACK),
    "password assignment": ("DB_PASSWORD=h7#kQ!z2pw", "h7#kQ!z2pw"),
    "password in yaml": ('  password: "s3cr3t-Blue!"', "s3cr3t-Blue!"),
    "json": ('{"client_secret": "9f8e7d6c5b4a-XyZ"}', "9f8e7d6c5b4a-XyZ"),
    "flag": ("tool --password Hunter2Hunter2 run", "Hunter2Hunter2"),
    "pem line alone": ("6.2 MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ", "MIIEvQIBADANBgkqhkiG9w0"),
    "random base64": ("k = 'Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRg=='", "Zm9vYmFyYmF6cXV4"),
    "azure": ("AccountKey=" + "Ab1" * 20 + "==;", "Ab1" * 20),
}

ORDINARY = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "token = request.headers.get('X-Token')",
    "def reset_password(self, password: str, token: Optional[str] = None) -> None:",
    "password = getpass.getpass(prompt)",
    "self.secret_key = settings.SECRET_KEY",
    "max_tokens: 4096, token_count=12",
    "AbstractSingletonProxyFactoryBeanConfigurationParser2 handles XMLHttpRequests",
    "com/example/project/module/submodule/ImplementationDetails3.java",
    "The password must have at least 12 characters.",
    "https://example.org/a/b?x=1#frag and user@example.org",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "path: /var/lib/app/9f8a7b/data.json",
    "authorization: required",
    "test_parse_HTTP2_response_with_V3_headers_and_trailing_CRLF",
    "class TokenBucket: tokens = 5; token_type = 'bearer'",
    "PASSWORD_HASHERS = ['django.contrib.auth.hashers.PBKDF2PasswordHasher']",
]


@pytest.mark.req("E8")
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_masked(name: str) -> None:
    text, secret = SECRETS[name]
    cleaned = redact(text)
    assert secret not in cleaned.text
    assert MASK in cleaned.text
    assert cleaned.secrets >= 1


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize("name", SECRETS)
def test_masking_twice_changes_nothing(name: str) -> None:
    once = redact(SECRETS[name][0]).text
    assert redact(once).text == once
    assert not Redactor().leaks(once)


def test_the_surroundings_of_a_secret_stay_readable() -> None:
    cleaned = redact("migration 0042 failed: postgres://app:Tr0ub4dor3x@db.example:5432/ledger: timed out")
    assert (
        cleaned.text == "migration 0042 failed: postgres://app:[redacted]@db.example:5432/ledger: timed out"
    )


def test_a_private_key_block_goes_as_a_whole() -> None:
    body = "\n".join("MIIEow" + str(n) * 40 + "Zq" for n in range(5))
    text = f"before\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nafter"
    cleaned = redact(text).text
    assert cleaned == f"before\n{MASK}\nafter"


@pytest.mark.req("E8")
@pytest.mark.parametrize("glue", [" ", "\n", "\u200b", "\u2060 ", "\t\n  "])
def test_a_remembered_secret_is_found_when_it_is_split(glue: str) -> None:
    redactor = Redactor()
    redactor.learn("export DB_PASSWORD=Qz81-vKx02-pLm93")
    split = glue.join("Qz81-vKx02-pLm93"[n : n + 3] for n in range(0, 16, 3))
    cleaned = redactor.clean(f"the value is {split} as read")
    assert cleaned.secrets >= 1
    for piece in ("Qz8", "vKx", "Lm9"):
        assert piece not in cleaned.text


@pytest.mark.req("E8")
def test_half_of_a_remembered_secret_is_a_leak_too() -> None:
    redactor = Redactor()
    redactor.learn(f"STRIPE={STRIPE}")
    assert STRIPE[-10:] not in redactor.clean(f"it ends with {STRIPE[-10:]}.").text


def test_a_weak_password_is_no_reason_to_mask_words() -> None:
    redactor = Redactor()
    redactor.learn("postgres://user:password@localhost/x")
    assert redactor.clean("reset the password of a user").text == "reset the password of a user"


def test_patient_data_are_masked_only_where_asked() -> None:
    text = "MRN: 00412-77, DOB 03/04/1961, SSN 078-05-1120, call 555-867-5309 or a.b@clinic.example"
    masked = redact(text, phi=True).text
    for part in ("00412", "1961", "078-05", "867", "clinic.example"):
        assert part not in masked
    assert redact("SSN 078-05-1120").text == "SSN 078-05-1120"


def test_a_secret_in_a_path_is_recognised_by_form_only() -> None:
    assert known_form(f"backup/{TOKEN}/x.txt")
    assert not known_form("dist/chunk-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRg.js")


@pytest.mark.req("D1")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "unit",
    ["a", "A1b", "://x:", "://x:a@", "password=", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "ab@", "=",
     " ",
     "eyJ", "eyJ-", "sk-live-", "<", "< ", "SYSTEM", "\n", "ignore all ", "1-2-", "SG.", "\u200b",
     "Bearer "],
)  # fmt: skip
def test_a_long_line_costs_little(unit: str) -> None:
    """Every pattern is linear: the time-out is far above what 100,000 characters take."""
    redact((unit * 100_000)[:100_000], phi=True)
