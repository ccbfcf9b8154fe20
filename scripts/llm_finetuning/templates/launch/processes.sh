
# Starts a command in a session of its own, so that a signal to this group does not reach it, and yet not without this
# shell: where the shell is killed, the kernel sends the command SIGTERM.
apart() {
    if command -v setpriv > /dev/null; then
        exec setsid setpriv --pdeathsig TERM "$@"
    fi
    exec setsid "$@"
}

alive() { kill -0 "$1" 2> /dev/null; }

# SIGTERM asks the trainer to finish its step, save and stop. It goes past accelerate to the processes that train:
# accelerate itself would kill them after 30 s, in the middle of a long step.
trainer=
asked=
ask_to_stop() {
    asked=yes
    [ -n "$trainer" ] || return 0
    local training=
    [ -z "$LAUNCHED" ] || training=$(cat /proc/"$trainer"/task/*/children 2> /dev/null || true)
    # shellcheck disable=SC2086  # numbers, one word each
    kill -TERM ${training:-$trainer} 2> /dev/null || true
}
trap ask_to_stop TERM INT

# accelerate answers 1 whatever its processes answered; they left what they meant in outcome.json.
exit_as() {
    local meant=
    if [ "$1" -ne 0 ] && [ -n "$LAUNCHED" ]; then
        meant=$(sed -n 's/.*"exit_code": *\([0-9][0-9]*\).*/\1/p' logs/outcome.json 2> /dev/null || true)
        [ -n "$meant" ] || [ -z "$asked" ] || meant=143
    fi
    exit "${meant:-$1}"
}

mkdir -p logs
rm -f logs/outcome.json # of an earlier start
