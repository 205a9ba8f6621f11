"""Trust models: the roles encoder, shuffler and analyzer between users and learner."""
