"""What `rubric_judge` is made of: the judge's prompt, its server, its verdict, and the record that calibrates it."""
