"""The documentation as a site, built by Zensical: ``make site``."""
