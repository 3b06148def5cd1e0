"""``make demo``: five things that go wrong on AWS Lambda, without the package and with it."""
