
if [ "$GPUS" -gt 0 ]; then
    CUDA_VISIBLE_DEVICES=$(gpus "${TRAINER_DEVICES[@]}")
    export CUDA_VISIBLE_DEVICES
    echo "launch.sh: trainer on GPU $CUDA_VISIBLE_DEVICES"
fi
apart "${TRAINER[@]}" &
trainer=$!
while alive "$trainer"; do
    wait "$trainer" || true # a signal ends the waiting, not the trainer
done
wait "$trainer" && code=0 || code=$?
exit_as "$code"
