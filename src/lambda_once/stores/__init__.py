"""Where tokens live. Every store keeps the contract in `contract`."""
