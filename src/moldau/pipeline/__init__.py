"""Pipelines that are declared: a file, or the same as values, says what is read, decoded, checked and written where."""
