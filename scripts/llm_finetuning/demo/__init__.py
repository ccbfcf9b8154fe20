"""What the demo is made of: sums, a program that reads, and the road to a model that is better."""
