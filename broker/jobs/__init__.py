"""Job model, state machine, store, dispatch, artifacts, audit."""
