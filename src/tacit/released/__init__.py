"""What a learner may see: private statistics with their claim and precision."""
