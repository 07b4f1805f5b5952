"""The parts of the mlx-spec command. Importing them imports no mlx: `mlx-spec --help` answers at once."""
