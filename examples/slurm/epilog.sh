#!/bin/sh
# Record how an attempt ended. slurm.conf:
#
#     JobCompType=jobcomp/script
#     JobCompLoc=/etc/slurm/ett/epilog.sh
#
# Slurm runs it once for each allocation, on the controller, with the state of the job. It is not
# attached as an Epilog: there a cancelled and a preempted job look like ones that ended well.
# It waits for no network.
trap 'exit 0' EXIT
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}"
here=$(dirname "$0")
# shellcheck source=settings.sh
. "$here/settings.sh"
# shellcheck source=events.sh
. "$here/events.sh"

# A job that was cancelled before it got nodes has begun nothing.
[ -f "$running/$JOBID" ] || exit 0
{ read -r attempt && read -r name && read -r cluster; } < "$running/$JOBID"
rm -f "$running/$JOBID"

state=$JOBSTATE
case $state in
    COMPLETED) outcome=completed ;;
    PREEMPTED) outcome=preempted ;;
    CANCELLED*) outcome=cancelled ;;
    PENDING | REQUEUED) # by hand; old versions of Slurm show the state that it has by now
        outcome=cancelled
        state=REQUEUED
        ;;
    *) outcome=failed ;;
esac

# Slurm's instants are whole seconds, rounded down: now is closer, unless this runs late.
ended=$(instant now)
[ $(($(date +%s) - END)) -le 1 ] || ended=$(instant "@$((END + 1))")

id=slurm-$JOBID-$attempt
whose="\"job\":$(quoted "$name"),\"launch\":\"$JOBID\",\"attempt\":$attempt"
ending="\"at\":\"$ended\",\"outcome\":\"$outcome\",\"scheduler_state\":$(quoted "$state")"
ending="$ending,\"exit_code\":${EXITCODE%%:*}"
[ "${EXITCODE##*:}" = 0 ] || ending="$ending,\"signal\":${EXITCODE##*:}"

# Waiting for something else than nodes is no queueing: it is a stage, which owns no time. Slurm
# does not say here until when that was, but knows it for some minutes, of a requeued job no more.
stage=
case ${STATEREASONPREV:-} in
    Dependency* | BeginTime | JobArrayTaskLimit | JobHeld*) stage=$STATEREASONPREV ;;
esac
eligible=$(eligible_of "$JOBID" "$SUBMIT" "$START")
if [ -z "$eligible" ]; then
    eligible=$SUBMIT
    [ -z "$stage${ORIG_DEPENDENCY:-}" ] || eligible=$START
fi
waited="$whose$(of_cluster "${cluster:-}"),\"phase\":\"queued\""
queued="{\"type\":\"span\",\"id\":\"$id-queued\",$waited,
\"start\":\"$(instant "@$eligible")\",\"at\":\"$(instant "@$START")\"}"
if [ "$eligible" -gt "$SUBMIT" ]; then
    queued="$queued,{\"type\":\"span\",\"id\":\"$id-deferred\",$waited,\"stage\":\"${stage:-deferred}\",
\"start\":\"$(instant "@$SUBMIT")\",\"at\":\"$(instant "@$eligible")\"}"
fi
attempt_ended="{\"type\":\"attempt_ended\",\"id\":\"$id-ended\",$whose,$ending}"
job_ended=
if [ $outcome = completed ] && ! goes_on "$name"; then
    job_ended=",{\"type\":\"job_ended\",\"id\":\"$id-job-ended\",$whose,$ending}"
fi
record "$queued,$attempt_ended$job_ended"
