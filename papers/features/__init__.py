"""Linear learners over rows of features: bars, frontier, misspecified worlds, and tables of bins beside them."""
