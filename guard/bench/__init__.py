"""What a policy comes to: played against a scripted model, and measured on a real one."""
