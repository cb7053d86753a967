"""The bounded tool loop: the loop, its tools, the model clients, the built-in planner."""
