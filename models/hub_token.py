"""The token that opens private and gated repositories of the hub, and where it is kept.

First HF_TOKEN of the environment, then the Mac's keychain (by `security`, which every Mac has), then what
`hf auth login` left. Where there is no keychain nothing is written: the environment is the place, and that is said.
A token goes to `security` by its standard input, never by its arguments, which other programs can read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache

from mlx_spec.events import Problem

SECURITY = "/usr/bin/security"
SERVICE = "Outrider hub token"
ACCOUNT = "outrider"
PATIENCE_S = 20.0  # the keychain may ask the person first
TOKEN = re.compile(r"[A-Za-z0-9_.-]{8,512}")


@dataclass(frozen=True, slots=True)
class Token:
    """`value` None: the hub is asked without one. `origin` is a sentence about where it comes from."""

    value: str | None
    origin: str

    def __repr__(self) -> str:
        return f"Token({'set' if self.value else 'none'}, {self.origin!r})"


def has_keychain() -> bool:
    """Whether this system has a keychain that is used here."""
    return sys.platform == "darwin" and os.access(SECURITY, os.X_OK)


def token() -> Token:
    """The token to use."""
    if value := (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip():
        return Token(value, "The token is that of HF_TOKEN in the environment.")
    if has_keychain() and (value := _kept()):
        return Token(value, "The token is kept in the keychain.")
    from huggingface_hub import get_token

    if value := get_token() or "":
        return Token(value, "The token is the one that `hf auth login` left on this machine.")
    if has_keychain():
        return Token(None, "No token: public models only.")
    return Token(None, "No token: public models only. This system has no keychain; set HF_TOKEN for others.")


def keep(value: str) -> None:
    """Put a token into the keychain, in place of the one before. Raises `Problem` where that cannot be done."""
    value = value.strip()
    if not TOKEN.fullmatch(value):
        raise Problem("That is no token of the hub.", "It is one word and begins with hf_.")
    if not has_keychain():
        raise Problem("This system has no keychain.", "Set HF_TOKEN in the environment.")
    _security(f'add-generic-password -U -a "{ACCOUNT}" -s "{SERVICE}" -w "{value}"\n')
    _kept.cache_clear()
    if _kept() != value:
        _kept.cache_clear()
        raise Problem("The keychain did not take the token.", "Unlock it, or set HF_TOKEN in the environment.")


def forget() -> None:
    """Take the token out of the keychain, if there is one."""
    if has_keychain():
        _security(f'delete-generic-password -a "{ACCOUNT}" -s "{SERVICE}"\n')
    _kept.cache_clear()


@lru_cache(maxsize=1)
def _kept() -> str:
    """What the keychain has; "" for nothing. Asked once: each question may ask the person."""
    try:
        asked = subprocess.run(
            [SECURITY, "find-generic-password", "-a", ACCOUNT, "-s", SERVICE, "-w"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def _security(command: str) -> None:
    """One command to `security -i`. It ends with 0 whatever its commands did, so what was done is looked at after."""
    try:
        subprocess.run([SECURITY, "-i"], input=command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Problem("The keychain did not answer.", "Unlock it and try again, or set HF_TOKEN.") from e
