
exec "$PYTHON" train.py
