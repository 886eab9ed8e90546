"""Is it being done right: the checker, its verdicts and its reports."""
