"""What is stuck, and how it is settled: for those who look after the token table."""
