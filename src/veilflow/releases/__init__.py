"""Every way in which records become numbers that may leave: one file a release."""
