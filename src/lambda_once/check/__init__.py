"""What is wrong with a deployment: rules over one value, `Deployment`, which two readers make."""
