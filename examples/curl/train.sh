#!/bin/sh
# A trainer in shell that records itself: train.sh STEPS [STEP AT WHICH IT CRASHES]
set -u
# shellcheck source=ett.sh
. "$(dirname "$0")/ett.sh"
steps=$1
crash_at=${2:-0}

ett_begin '"gpus":8,"hosts":1'
trap 'ett_end $?' EXIT
trap 'exit 143' TERM
ett_event job '"team":"vision","model":"resnet"'

ett_event phase_started '"phase":"launcher_init"'
step=0
if [ -f checkpoint ]; then
    ett_event phase_started '"phase":"launcher_init","stage":"checkpoint_restore"'
    step=$(cat checkpoint)
    ett_event phase_ended '"phase":"launcher_init","stage":"checkpoint_restore"'
    ett_event checkpoint_restored "\"step\":$step"
fi
sleep 0.2

ett_event phase_started '"phase":"train_loop"' # ends launcher_init, too
while [ "$step" -lt "$steps" ]; do
    sleep 0.1 # a step of training
    step=$((step + 1))
    ett_event progress "\"step\":$step" # every 10 s is enough; the first of a loop at once
    [ "$step" != "$crash_at" ] || exit 3
    if [ $((step % 5)) = 0 ]; then
        ett_event phase_started '"phase":"checkpoint_blocking"'
        echo "$step" > checkpoint.new && mv checkpoint.new checkpoint
        ett_event phase_ended '"phase":"checkpoint_blocking"'
        ett_event checkpoint_saved "\"step\":$step"
    fi
done
ett_event phase_started '"phase":"shutdown"' # ends the loop
