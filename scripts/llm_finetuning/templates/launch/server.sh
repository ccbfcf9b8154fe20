
server_gpus=$(gpus "${ENGINE_DEVICES[@]}")
trainer_gpus=$(gpus "${TRAINER_DEVICES[@]}")
shared=$(comm -12 <(tr , '\n' <<< "$server_gpus" | sort -u) <(tr , '\n' <<< "$trainer_gpus" | sort -u))
if [ -n "$shared" ]; then
    echo "launch.sh: GPU ${shared//$'\n'/, } would serve and train at once, which never ends; CUDA_VISIBLE_DEVICES must" \
        "name different GPUs, and it is '${CUDA_VISIBLE_DEVICES-}'" >&2
    exit 2
fi
echo "launch.sh: vLLM server on GPU $server_gpus, trainer on GPU $trainer_gpus"

for port in "$SERVER_PORT" "$GROUP_PORT"; do
    if ! "$PYTHON" -c "import socket, sys; socket.create_server(('', int(sys.argv[1])))" "$port" 2> /dev/null; then
        echo "launch.sh: port $port is taken, perhaps by the server of another run; end that, or give this one" \
            "\`training: {vllm_server_port: N, vllm_group_port: M}\` and build again" >&2
        exit 2
    fi
done

server=
end_server() {
    [ -n "$server" ] || return 0
    kill -TERM -- -"$server" 2> /dev/null || return 0
    for _ in {1..30}; do
        kill -0 -- -"$server" 2> /dev/null || return 0
        sleep 1
    done
    kill -KILL -- -"$server" 2> /dev/null || true
}
trap end_server EXIT
CUDA_VISIBLE_DEVICES=$server_gpus apart bash serve.sh > logs/server.log 2>&1 &
server=$!
await_server "http://127.0.0.1:$SERVER_PORT" "$server"

CUDA_VISIBLE_DEVICES=$trainer_gpus apart "${TRAINER[@]}" &
trainer=$!
while alive "$trainer" && alive "$server"; do
    sleep 1 || true
done
if alive "$trainer"; then
    # At once, since it may wait in NCCL for a server that is gone.
    training=$(cat /proc/"$trainer"/task/*/children 2> /dev/null || true)
    # shellcheck disable=SC2086  # numbers, one word each
    kill -KILL $training "$trainer" 2> /dev/null || true
    tail -n 20 logs/server.log >&2 || true
    echo "launch.sh: the vLLM server ended during training; logs/server.log says why. Start again: training goes on from" \
        "the last checkpoint" >&2
    exit 4
fi
wait "$trainer" && code=0 || code=$?
exit_as "$code"
