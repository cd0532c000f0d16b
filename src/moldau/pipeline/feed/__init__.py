"""The change feed of a table as a pipeline's source: Delta version by version, Iceberg snapshot by snapshot."""
