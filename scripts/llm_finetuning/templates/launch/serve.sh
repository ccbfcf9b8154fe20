
model=${FINETUNE_MODEL:-$MODEL}
# TRL sends the weights through these development endpoints: whoever reaches the port can replace the model.
export VLLM_SERVER_DEV_MODE=1
exec "$PYTHON" -m vllm.entrypoints.cli.main serve "$model" \
    --host "${SERVER_HOST:-127.0.0.1}" --port "$SERVER_PORT" \
    --weight-transfer-config '{"backend":"nccl"}' --logprobs-mode processed_logprobs --max-logprobs -1 \
    "${OPTIONS[@]}"
