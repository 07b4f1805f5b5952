"""A tiny random Llama with a real byte-level tokenizer, in an mlx-lm folder: everything but the knowledge."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import llama

TEXT = """The outrider rides ahead of the party and looks at the road. What it sees it tells, and the party
decides. If the road is good they ride on; if not, they turn where the party says. Counting: one two three
four five six seven eight nine ten, one two three four five six seven eight nine ten.
Grüße, naïve café, 東京 😀."""
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@lru_cache
def tokenizer_json() -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    return str(tokenizer.to_str())


def tiny_model(seed: int = 0, vocabulary: int = 320, layers: int = 2, scale: float = 1.0) -> llama.Model:
    """Random float32 weights; `scale` sharpens what it says."""
    mx.random.seed(seed)
    model = llama.Model(llama.ModelArgs(**config(vocabulary, layers)))
    model.update_modules({})
    wide = [(k, v * 3 * scale if v.ndim > 1 else v) for k, v in tree_flatten(model.parameters())]
    model.load_weights(wide)
    mx.eval(model.parameters())
    return model


def config(vocabulary: int = 320, layers: int = 2) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": layers,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    }


def tiny_llama(folder: Path, seed: int = 0, layers: int = 2) -> Path:
    """Write the model and its tokenizer as an mlx-lm folder."""
    folder.mkdir(parents=True, exist_ok=True)
    model = tiny_model(seed, layers=layers)
    mx.save_safetensors(
        str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), metadata={"format": "mlx"}
    )
    (folder / "config.json").write_text(json.dumps({**config(layers=layers), "eos_token_id": 2}))
    (folder / "tokenizer.json").write_text(tokenizer_json())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "bos_token": None,
                "chat_template": TEMPLATE,
                "model_max_length": 512,
                "clean_up_tokenization_spaces": False,
            }
        )
    )
    return folder
