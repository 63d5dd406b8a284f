"""One file for each schema version. A released one is never changed."""
