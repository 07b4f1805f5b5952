"""What the decoder and the engine process say, and what they are asked: plain frozen data, nothing else.

This is the only contract between the engine and any face of it (the window, the command, a test). Every
class here pickles, and none of them refers to mlx, Qt, a file or a socket. Times are seconds, sizes bytes.

The order of events for one `Generate` request is always

    PromptProgress*  Round*  (Finished | Failed)

and for one `Load` request it is LoadProgress* (Loaded | Failed). `request` is the number that the asker
gave; events of an older request may still arrive after a newer one was sent and are told apart by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# ---------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How the target's next token is chosen. The defaults are greedy decoding.

    temperature 0 is argmax. top_p 1, top_k 0 and min_p 0 are off. `repetition_penalty` 1 is off;
    `presence_penalty` and `frequency_penalty` 0 are off. The three penalties look at the last
    `penalty_context` tokens, prompt included (0 = the whole conversation). `seed` None draws a fresh seed,
    which is reported in `Finished.seed`. `max_tokens` None means until the context is full.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_context: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class DrafterSettings:
    """Which drafters may propose, by name, and the accept rule. Order matters only where two promise the same.

    `limits` are longest drafts of single drafters, where they are shorter than `max_draft`.
    An empty `names` is plain decoding. `rule` is "match", "rejection" or "block". `adaptive` False drafts
    `max_draft` tokens whenever a drafter has them, whatever it costs: for measurements, not for people.
    """

    names: tuple[str, ...] = ("lookup", "model")
    rule: str = "match"
    max_draft: int = 16
    adaptive: bool = True
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. `role` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Load:
    """Load a target and maybe a draft model. Both are "starter", a folder, a GGUF file or a hub id.

    `context` limits the context length in tokens (None = what the model was made for). `dtype` None keeps
    the weights as they are stored, except where mlx has no GPU: there quantized weights are slow and are
    widened to float32 if they fit. "stored" keeps them always, "float32" widens them always. `kv_bits` (4 or 8)
    keeps the target's keys and values in so many bits once a conversation is long.
    """

    request: int
    model: str
    draft: str | None = None
    context: int | None = None
    dtype: str | None = None
    kv_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a conversation, whose last message is the user's (or, to be continued, the assistant's).

    `chat` names the conversation under which the reply's tokens are kept, so that later replies may be drafted
    from it; None keeps nothing.
    """

    request: int
    messages: tuple[Message, ...]
    sampling: SamplingSettings = SamplingSettings()
    drafters: DrafterSettings = DrafterSettings()
    chat: str | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the replies that were kept under `chat`, for every model."""

    chat: str


@dataclass(frozen=True, slots=True)
class Count:
    """Count the tokens of some texts, as they are: without the chat template or marks around them."""

    request: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetDrafters:
    """Change the drafters; in effect from the next round, in mid-reply too."""

    drafters: DrafterSettings


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the reply `request` after the pass that is running. What came stays."""

    request: int


@dataclass(frozen=True, slots=True)
class Unload:
    """Drop the models and give their memory back."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the engine process."""


Request = Load | Generate | Count | Forget | SetDrafters | Stop | Unload | Shutdown

# ------------------------------------------------------------------------------------------------ events


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is loaded. `drafters` names those that can run with it; `refused` says why each other cannot."""

    model: str
    draft: str | None
    architecture: str
    parameters: int
    bits: float  # mean bits a weight
    context: int  # tokens
    weight_bytes: int
    drafters: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """`stage` is "download", "import", "read" or "check"; `total` 0 means that it is not known."""

    request: int
    stage: str
    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    request: int
    info: ModelInfo
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prefill: `done` of `total` prompt tokens are in the cache, `cached` of them were there before."""

    request: int
    done: int
    total: int
    cached: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """Text that became visible. `drafter` proposed it; None means that the target wrote it itself."""

    text: str
    drafter: str | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One pass of the target: what was drafted, what held, what the target wrote, and what it took.

    The tokens that this round adds to the reply are `tokens`: the first `accepted` of `drafted`, then the
    target's own token at the place of the first failure, or after the last draft. The target's own token is
    missing where the reply ended inside the draft. `spans` is the text that became visible in this round,
    in order; it may lag behind `tokens` by part of a character or by what might be a stop string. Joined
    over all rounds it is exactly the reply's text.

    `drafted_text` has one string a drafted token, for showing (a token may be half a character: U+FFFD).
    `width` is the number of rows in the pass. `plain_s` is the present estimate of one plain pass at this
    context length, None while unknown. `expected` is how many tokens the controller hoped for, and `why`
    says in a few words why it drafted what it did, or did not.

    `own_text` shows the target's own token as `drafted_text` shows the drafts. `hopes` has the drafter's probability
    of each drafted token, `chances` the target's of each of `tokens` (after temperature, top-p and the like); both
    from 0 to 1, and empty where they are not known without more work.
    """

    request: int
    index: int  # of this round in the reply
    position: int  # of the first of `tokens` in the whole context
    drafter: str | None  # None: a plain pass
    drafted: tuple[int, ...]
    drafted_text: tuple[str, ...]
    accepted: int
    tokens: tuple[int, ...]
    spans: tuple[Span, ...]
    width: int
    draft_s: float
    verify_s: float
    total_s: float
    plain_s: float | None = None
    expected: float = 1.0
    why: str = ""
    resting: bool = False  # drafting is slower than plain decoding here, so it is off for now
    memory: int = 0  # bytes in use by mlx, as seen after this round
    own_text: str = ""
    hopes: tuple[float, ...] = ()
    chances: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DrafterStats:
    """Sums over a reply. `rounds` counts the rounds in which this drafter proposed something."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is complete. `reason` is "stop" (end of turn or stop string), "length", "context" (the
    context is full) or "stopped" (asked to). `tail` is text that was held back and is visible now."""

    request: int
    reason: str
    tail: tuple[Span, ...]
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    passes: int
    prompt_s: float
    first_token_s: float  # from the request to the first token
    decode_s: float  # after the prompt, all rounds
    seed: int
    plain_s: float | None  # measured seconds of one plain pass, None if none was run
    by_drafter: dict[str, DrafterStats] = field(default_factory=dict)
    benched: dict[str, str] = field(default_factory=dict)  # drafters that broke down in this reply, and how
    peak_memory: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """How many tokens each text of a `Count` has, in the same order."""

    request: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Something could not be done. `message` is one sentence for a person, `remedy` what they can do;
    `detail` (a traceback, say) is for a bug report and is never shown unasked."""

    request: int
    message: str
    remedy: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Sent after loading and now and then: bytes in use by mlx, the peak, and what the machine has."""

    active: int
    peak: int
    total: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know, though nothing failed: one sentence."""

    message: str


Event = LoadProgress | Loaded | PromptProgress | Round | Finished | Counted | Failed | Memory | Notice


class Problem(Exception):
    """An error that a person can act on: `message` is one clear sentence, `remedy` says what to do.

    Raised anywhere in mlx_spec and models; the command prints it and exits with 1, the host sends it as
    `Failed`. Everything else that is raised is a bug.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message if not remedy else f"{message} {remedy}")
        self.message = message
        self.remedy = remedy
