import threading


def spin():
    while True:
        pass


while True:
    try:
        threading.Thread(target=spin, daemon=True).start()
    except Exception:
        pass
