"""What a person sees in a browser: the review page and the reports, all of it served or written by this machine."""
