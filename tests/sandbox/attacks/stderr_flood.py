import os
import threading


def flood():
    while True:
        os.write(2, b"x" * 65536)


for _ in range(8):
    threading.Thread(target=flood, daemon=True).start()
flood()
