"""One way to talk to DynamoDB, for everything in the package."""
