
# await_server URL PID: returns when the server answers, and fails with the reason when it has ended or takes too long.
await_server() {
    local deadline=$((SECONDS + SERVER_START_S))
    until "$PYTHON" -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)" "$1/health" 2> /dev/null; do
        [ -z "$asked" ] || exit 143
        if ! kill -0 "$2" 2> /dev/null; then
            tail -n 20 logs/server.log >&2 || true
            echo "${0##*/}: the vLLM server ended before it answered; logs/server.log says why, its end is above" >&2
            exit 4
        fi
        if [ "$SECONDS" -ge "$deadline" ]; then
            tail -n 20 logs/server.log >&2 || true
            echo "${0##*/}: the vLLM server at $1 did not answer within $SERVER_START_S s; look at logs/server.log, and give" \
                "a large model more time with SERVER_START_S=1800" >&2
            exit 4
        fi
        sleep 1
    done
    echo "${0##*/}: the vLLM server answers at $1"
}
