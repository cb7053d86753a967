"""`propose_patch`: a candidate diff by the local model, checked; without a model a located plan."""
