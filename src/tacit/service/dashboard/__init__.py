"""The dashboard: pages for operators, privacy officers and learners of one study, of what is public about it."""
