"""The token in the keychain, by a stand-in for the Mac's `security`, which must never see it as an argument."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlx_spec.events import Problem
from models import hub_token
from models.hub_token import forget, has_keychain, keep, token
from tests.models.hub_stand_in import HubStandIn

SECURITY = """#!{python}
import pathlib, re, sys
kept, log = pathlib.Path("{kept}"), pathlib.Path("{log}")
log.open("a").write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == "-i":
    for line in sys.stdin:
        if line.startswith("add-"):
            kept.write_text(re.search('-w "(.*)"', line)[1])
        elif line.startswith("delete-"):
            kept.unlink(missing_ok=True)
elif kept.exists():
    print(kept.read_text())
else:
    sys.exit(44)
"""


@pytest.fixture
def keychain(hub: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "security"
    log = tmp_path / "arguments"
    program.write_text(SECURITY.format(python=sys.executable, kept=tmp_path / "kept", log=log))
    program.chmod(0o755)
    monkeypatch.setattr(hub_token, "SECURITY", str(program))
    monkeypatch.setattr(hub_token, "has_keychain", lambda: True)
    hub_token._kept.cache_clear()
    return log


def test_kept_found_and_forgotten(keychain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token().value is None
    keep(" hf_verysecret ")
    assert token().value == "hf_verysecret"
    assert "keychain" in token().origin
    assert "verysecret" not in keychain.read_text()
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    assert token().value == "hf_environment"  # what is set for this run comes first
    monkeypatch.delenv("HF_TOKEN")
    forget()
    assert token().value is None


@pytest.mark.parametrize("value", ["", "short", 'hf_with"quote-and-more', "hf_two words", "hf_line\nbreak"])
def test_what_is_no_token_is_not_handed_on(keychain: Path, value: str) -> None:
    with pytest.raises(Problem, match="no token"):
        keep(value)
    assert not keychain.exists()


def test_a_keychain_that_does_not_take_it(keychain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(hub_token.SECURITY).write_text(f"#!{sys.executable}\n")
    with pytest.raises(Problem, match="did not take"):
        keep("hf_verysecret")
    monkeypatch.setattr(hub_token, "SECURITY", "/nowhere/security")
    with pytest.raises(Problem, match="did not answer"):
        keep("hf_verysecret")
    assert token().value is None


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has one")
def test_without_a_keychain_that_is_said(hub: HubStandIn) -> None:
    assert not has_keychain()
    assert "no keychain; set HF_TOKEN" in token().origin
    with pytest.raises(Problem, match="no keychain"):
        keep("hf_verysecret")


def test_what_the_hubs_own_login_left(hub: HubStandIn, tmp_path: Path) -> None:
    (tmp_path / "no-token").write_text("hf_logged_in")
    assert token().value == "hf_logged_in"
    assert "hf auth login" in token().origin
