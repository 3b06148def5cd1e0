pytest_plugins = ["lambda_once.testing.plugin"]
