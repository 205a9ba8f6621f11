"""[bai2025secure], [bai2024shuffle]: policy elimination under shuffle trust."""
