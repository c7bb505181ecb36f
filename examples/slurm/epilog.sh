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
{ read -r attempt && read -r name; } < "$running/$JOBID"
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

# What waited for something else than nodes was not queued, and until when is not said here.
stage=
case ${STATEREASONPREV:-} in
    Dependency* | BeginTime | JobArrayTaskLimit | JobHeld*) stage=",\"stage\":\"$STATEREASONPREV\"" ;;
esac
queued="{\"type\":\"span\",\"id\":\"$id-queued\",$whose,\"phase\":\"queued\"$stage,
\"start\":\"$(instant "@$SUBMIT")\",\"at\":\"$(instant "@$START")\"}"
attempt_ended="{\"type\":\"attempt_ended\",\"id\":\"$id-ended\",$whose,$ending}"
job_ended=
if [ $outcome = completed ] && ! goes_on "$name"; then
    job_ended=",{\"type\":\"job_ended\",\"id\":\"$id-job-ended\",$whose,$ending}"
fi
record "$queued,$attempt_ended$job_ended"
