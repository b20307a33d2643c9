"""For all tests: property tests have no deadline per example, because a busy machine is no bug."""

from hypothesis import settings

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
