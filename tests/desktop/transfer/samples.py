"""Chats and foreign files for the tests of import and export."""

from __future__ import annotations

from typing import Any

from desktop.store import Store
from mlx_spec.events import DrafterStats, Finished, Round, Span

FINISHED = Finished(1, "stop", (), 3, 10, 4, 1, 0.1, 0.2, 1.0, 7, 0.02, {"lookup": DrafterStats(1, 2, 1)})


def a_round(text: str, index: int = 0) -> Round:
    """A draft that held, one that failed, and a token of the model's own."""
    return Round(
        request=1,
        index=index,
        position=10,
        drafter="lookup",
        drafted=(1, 2),
        drafted_text=(text, " wrong"),
        accepted=1,
        tokens=(1, 3),
        spans=(Span(text, "lookup"), Span("!")),
        width=3,
        draft_s=0.001,
        verify_s=0.02,
        total_s=0.021,
        plain_s=0.02,
        why="it pays",
    )


def branched(store: Store, title: str = "Two ways") -> int:
    """A chat with two replies to one question, the first of them shown and gone on from."""
    chat = store.new_chat(title)
    asked = store.add_message(chat.id, None, "user", "Say <b>hello</b> & more")
    one = store.add_message(chat.id, asked.id, "assistant", "", "writing", "some/Model-1B")
    store.append_rounds(one.id, [a_round("Hello **there**")])
    store.finish(one.id, "done", "", FINISHED)
    again = store.add_message(chat.id, one.id, "user", "Again")
    two = store.add_message(chat.id, asked.id, "assistant", "", "writing", "some/Model-1B")
    store.finish(two.id, "stopped", "", None, (Span("Good day"),))
    store.set_head(chat.id, again.id)
    return chat.id


def node(
    key: str, parent: str | None, children: list[str], role: str = "", text: Any = "", **more: Any
) -> dict[str, Any]:
    """A node of ChatGPT's tree; one without a role has no message."""
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message = {"id": key, "author": {"role": role}, "create_time": 1700000001.5, "content": content} | more
    return {"id": key, "parent": parent, "children": children, "message": message if role else None}


def chatgpt() -> list[dict[str, Any]]:
    """One chat with an edited question, a tool between two pieces of a reply, and what nobody sees."""
    hidden = {"is_visually_hidden_from_conversation": True}
    nodes = [
        node("root", None, ["sys"]),
        node("sys", "root", ["q1", "q2"], "system", "You are", metadata=hidden),
        node("q1", "sys", ["a1"], "user", "First wording"),
        node("a1", "q1", [], "assistant", "Reply to the first", metadata={"model_slug": "gpt-4"}),
        node("q2", "sys", ["think"], "user", {"content_type": "multimodal_text", "parts": [
            {"content_type": "image_asset_pointer"}, "Second wording"]}),
        node("think", "q2", ["call"], "assistant", {"content_type": "thoughts", "thoughts": []}),
        node("call", "think", ["tool"], "assistant", {"content_type": "code", "text": "search()"}, recipient="web"),
        node("tool", "call", ["a2"], "tool", "found"),
        node("a2", "tool", ["a3"], "assistant", "Let me see.", metadata={"model_slug": "gpt-5"}),
        node("a3", "a2", ["q3"], "assistant", {"content_type": "code", "language": "python", "text": "x = 1"}),
        node("q3", "a3", ["a4", "a5"], "user", "Go on"),
        node("a4", "q3", [], "assistant", "One way"),
        node("a5", "q3", [], "assistant", "Another way"),
    ]  # fmt: skip
    chat = {"title": "Old  chat", "create_time": 1700000000.0, "update_time": 1700000100.0, "current_node": "a5"}
    return [chat | {"mapping": {n["id"]: n for n in nodes}}]


def lmstudio() -> dict[str, Any]:
    """A conversation with a question of two versions and a reply with a thought."""

    def said(text: str) -> dict[str, Any]:
        return {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": text}]}

    steps = [
        {"type": "contentBlock", "style": {"type": "thinking"}, "content": [{"type": "text", "text": "hm"}]},
        {"type": "debugInfoBlock", "debugInfo": "x"},
        {"type": "contentBlock", "content": [{"type": "text", "text": "Hello!"}]},
    ]
    return {
        "name": "From the studio",
        "pinned": True,
        "createdAt": 1700000000000,
        "messages": [
            {"versions": [said("Hi"), said("Hi there")], "currentlySelected": 1},
            {
                "versions": [
                    {"type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen"}, "steps": steps}
                ],
                "currentlySelected": 0,
            },
        ],
    }
