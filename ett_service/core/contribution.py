DIMENSIONS = ("team", "model", "cluster", "hardware", "precision", "kind", "size", "code_version")
