"""Speculative decoding on MLX: exact text, fewer passes, every round visible.

This package knows no window, no settings file and no network. Importing it does not import mlx: a face that
only needs `mlx_spec.events` stays light.
"""
