"""Sleeps for each of many inputs, each time less than the limit."""

import time

time.sleep(2.0)
print(input())
