"""Learners as runs build them, from a request that names one."""

from tacit.learners.table import learner_row


def make_learner(request):
    """The learner that a request names, once its options are checked."""
    row = learner_row(request.name)
    row.check(request.name, request.options)
    row.check_constants(request.name, request.constants)
    return row.build(request)
