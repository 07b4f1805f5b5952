"""Folders that look like models to everything that reads files, and hold a few bytes of weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def make_folder(folder: Path, tokens: list[str], context: int = 2048) -> Path:
    """Write a model folder whose vocabulary is `tokens`."""
    folder.mkdir(parents=True)
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 8,
        "intermediate_size": 16,
        "vocab_size": len(tokens),
        "max_position_embeddings": context,
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = {"model": {"vocab": {t: i for i, t in enumerate(tokens)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    head = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(16))
    return folder
