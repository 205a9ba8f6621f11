"""Studies: learning from real people, stage by stage, over files, with exact noise and without a simulator."""
