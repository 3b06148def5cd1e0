"""Token stores. `contract` defines what each of them guarantees."""
