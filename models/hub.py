"""Asking the hub: addresses, headers, answers, and one clear sentence for each way in which that can fail.

The hub's client does the asking (HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment are its business), but
without its repetitions, which would keep a person waiting for half a minute where the line is down. Knows no models.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

from mlx_spec.events import Problem

from .hub_token import token

TIMEOUT = 15.0  # seconds without an answer
MOST_TEXT = 4 << 20  # bytes of a config or an answer that are read


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, else the public one."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT).rstrip("/")


def host() -> str:
    """The hub's name, for a person."""
    return urllib.parse.urlsplit(endpoint()).netloc or endpoint()


def headers() -> dict[str, str]:
    """What a request carries: who asks, and the token if there is one.

    Not the client's own headers: to make those it asks the hub for more than was wanted, and tells more.
    """
    value = token().value
    return {"user-agent": "outrider", **({"authorization": f"Bearer {value}"} if value else {})}


def file_url(repo: str, path: str, revision: str = "main") -> str:
    """Where a file of a repository is."""
    quote = urllib.parse.quote
    return f"{endpoint()}/{quote(repo)}/resolve/{quote(revision, safe='')}/{quote(path)}"


def ask(path: str, parameters: dict[str, Any] | None = None, what: str = "the hub's list") -> Any:
    """The JSON that the hub answers to `path` ("/api/models"). Raises `Problem` in all other cases."""
    return _get(endpoint() + path, parameters, what, what)


def ask_file(repo: str, path: str, revision: str) -> Any:
    """A small JSON file of a repository. Raises `Problem`."""
    return _get(file_url(repo, path, revision), None, repo, f"{path} of {repo}")


def _get(url: str, parameters: dict[str, Any] | None, what: str, read: str) -> Any:
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        raise offline()
    try:
        answer = get_session().get(url, params=parameters, headers=headers(), timeout=TIMEOUT)
    except Exception as e:  # the client raises its transport's own errors
        raise no_connection(e) from e
    if answer.status_code != 200:
        raise refusal(answer.status_code, what, answer.headers.get("Retry-After", ""))
    try:
        if len(answer.content) > MOST_TEXT:
            raise ValueError("it is too long")
        return answer.json()
    except ValueError as e:
        raise garbage(read) from e


def offline() -> Problem:
    return Problem("The hub is not asked: HF_HUB_OFFLINE is set.", "Unset it, or use what is on this machine.")


def no_connection(error: BaseException) -> Problem:
    """The line is down, slow or cut."""
    kind = type(error).__name__
    if "Timeout" in kind:
        text = f"{host()} does not answer."
    elif "Proxy" in kind:
        text = f"The proxy did not let us through to {host()}."
    else:
        text = f"There is no connection to {host()}."
    return Problem(text, "Check the network (and HF_ENDPOINT and the proxy, where they are set), and try again.")


def garbage(what: str) -> Problem:
    """The answer is not what the hub says."""
    return Problem(
        f"{host()} answered something that is not {what}.",
        "A login page of the network or a wrong HF_ENDPOINT does that; open the address in a browser.",
    )


def refusal(code: int, what: str, wait: str = "") -> Problem:
    """One sentence for a status of HTTP. `wait` is what Retry-After said."""
    signed = token().value is not None
    if code == 401 and signed:
        return Problem(f"The hub does not take the token (401), asked for {what}.", "Set a new one.")
    if code == 401:
        return Problem(
            f"The hub has no {what}, or it is open only to those who sign in (401).",
            "Check the name, or set a token: it is private or wants its licence accepted.",
        )
    if code == 403:
        remedy = "Open its page in a browser, accept the licence there, and try again."
        return Problem(f"The hub does not open {what} to you (403).", remedy if signed else f"Set a token. {remedy}")
    if code == 404:
        return Problem(f"The hub has no {what} (404).", "Check the name; it may have been renamed or taken away.")
    if code == 429:
        when = f"in {wait} seconds" if wait.isdigit() else "in a few minutes"
        return Problem("The hub was asked too often (429).", f"Try again {when}; it allows more with a token.")
    if code >= 500:
        return Problem(f"The hub has trouble of its own ({code}).", "Try again in a few minutes.")
    return Problem(f"The hub refused {what} ({code}).", "Try again later.")
