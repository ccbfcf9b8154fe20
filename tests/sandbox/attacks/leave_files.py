import os
import tempfile

folders = (".", "/tmp", "/dev/shm", "/var/tmp", tempfile.gettempdir(), os.path.expanduser("~"))
paths = [os.path.join(folder, "left_by_candidate") for folder in folders]
for path in paths:
    if os.path.exists(path):
        print("LEAK:STATE", path, flush=True)
for path in paths:
    try:
        open(path, "w").write("HARM")
    except OSError:
        pass


def solve(xs):
    return 0
