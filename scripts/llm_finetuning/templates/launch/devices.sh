
# GPUs are counted within those that this shell may use, so that CUDA_VISIBLE_DEVICES of a shared machine still holds.
export CUDA_DEVICE_ORDER=PCI_BUS_ID # the order of nvidia-smi
visible=${CUDA_VISIBLE_DEVICES-}
if [ -z "$visible" ] && command -v nvidia-smi > /dev/null; then
    visible=$(nvidia-smi --query-gpu=index --format=csv,noheader | tr -d ' ' | paste -sd, -)
fi
IFS=, read -ra visible <<< "$visible"
if [ "${#visible[@]}" -lt "$GPUS" ]; then
    echo "launch.sh: this run is planned for $GPUS GPU(s) and ${#visible[@]} can be seen${TOO_FEW:+: $TOO_FEW};" \
        "start it on such a machine, or set \`hardware\` in the brief and build again" >&2
    exit 2
fi

# gpus 0 1: what CUDA_VISIBLE_DEVICES has to be for the first and second GPU of the plan.
gpus() {
    local names=() index
    for index in "$@"; do
        names+=("${visible[index]}")
    done
    (
        IFS=,
        echo "${names[*]}"
    )
}
