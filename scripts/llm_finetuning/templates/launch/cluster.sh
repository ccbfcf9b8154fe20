
# Hands the run to Slurm and waits for its end. Without Slurm: run.slurm shows which command belongs on which machine.
if ! command -v sbatch > /dev/null; then
    echo "launch.sh: no sbatch here; start it on a login node of the cluster, from a folder that all machines see" >&2
    exit 2
fi
mkdir -p logs
ask_to_stop() { scancel --batch --signal=TERM "$(sed -n 's/[^0-9]*\([0-9][0-9]*\).*/\1/p;q' logs/slurm.job)" || true; }
trap ask_to_stop TERM INT
sbatch --parsable --wait run.slurm > logs/slurm.job &
job=$!
while kill -0 "$job" 2> /dev/null; do
    wait "$job" || true # a signal ends the waiting, not the job
done
wait "$job" && code=0 || code=$?
exit "$code"
