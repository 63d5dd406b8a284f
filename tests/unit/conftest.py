"""Settings of hypothesis for the unit tests."""

from hypothesis import settings

# A busy machine is no failure. In CI (``CI=true``) hypothesis's own profile repeats the same examples in every run.
settings.register_profile("towpath", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("towpath")
