"""The figures of ``docs/performance.md``. Each script says in its first lines how it is run."""
