"""Measuring drafting on one's own questions, beside plain decoding and mlx-lm, in one process."""
