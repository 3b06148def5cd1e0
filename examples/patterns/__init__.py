"""Applications of the patterns; their tests add redeliveries, a second consumer and lost requests."""
