"""The speed of ingest, folds and stores, beside what bare parts reach on the same machine."""
