"""Checks of a deployment: rules over one value, `Deployment`, which two readers build."""
