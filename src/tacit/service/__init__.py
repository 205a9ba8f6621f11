"""A study over the network: shuffler, learner, issuer and mixer behind HTTP; needs the extra `service`."""
