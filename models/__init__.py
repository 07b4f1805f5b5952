"""What can be loaded: names, downloads, imports, pairs and memory. No window, no decoding.

Importing this package is light; mlx, gguf and the hub's client are imported when they are needed.
"""

from __future__ import annotations

from .catalogue import Entry, catalogue
from .folder import check_folder
from .local import LocalModel, local_models
from .locate import locate
from .memory import MemoryNeed
from .pair import PairReport, Proposal, check_pair, propose
from .paths import home, models_dir

__all__ = [
    "Entry",
    "LocalModel",
    "MemoryNeed",
    "PairReport",
    "Proposal",
    "catalogue",
    "check_folder",
    "check_pair",
    "home",
    "local_models",
    "locate",
    "models_dir",
    "propose",
]
