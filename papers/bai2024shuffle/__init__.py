"""[bai2024shuffle] and, as its second version, [bai2025secure]: policy elimination with shuffled batches."""
