"""The versions: SQL is spelled out here, since a migration must stay what it was when tables move on."""
