"""One client request, however many attempts."""
