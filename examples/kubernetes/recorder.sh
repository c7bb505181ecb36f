#!/bin/sh
# The sidecar of a training pod: it records the attempt with curl, so the trainer's image needs none.
#
# The containers share the folder $shared. The trainer writes `started` and `exit` there, its preStop
# hook writes `stopping`, and the sidecar `ready`, for which the trainer waits. All events so far are
# sent each time: the service derives the id of an event from what it says, so that each counts once.
set -u
over=''
trap 'over=yes' TERM
shared=/run/ett
account=/var/run/secrets/kubernetes.io/serviceaccount
config=/etc/ett/ett.curl # the address and the key
events=$shared/events.ndjson

now() {
    date -u +%Y-%m-%dT%H:%M:%SZ
}

# Write an event: its type, its instant, then its own members as JSON.
event() {
    printf '{"type":"%s","at":"%s","job":"%s","launch":"%s"%s}\n' \
        "$1" "$2" "$ETT_JOB" "$ETT_LAUNCH" "${3:+,$3}" >> "$events"
    waiting=yes
}

deliver() {
    [ -n "$waiting" ] || return 0
    status=$(curl -q --config "$config" --silent --connect-timeout 3 --max-time 10 \
        --header 'Content-Type: application/x-ndjson' --data-binary "@$events" \
        --output "$shared/answer" --write-out '%{http_code}')
    case $status in
        200) waiting='' ;;
        400 | 413 | 415 | 422) # what is refused now would always be
            cat "$shared/answer" >&2
            waiting=''
            ;;
        *) return 1 ;;
    esac
}

# Print this pod as Kubernetes has it, a member a line. The token comes on standard input.
pod() {
    printf 'header = "Authorization: Bearer %s"\n' "$(cat $account/token)" |
        curl -q --config - --silent --fail --max-time 5 --cacert $account/ca.crt \
            "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$POD_NAMESPACE/pods/$POD_NAME?pretty=true"
}

# Print a member of one of its conditions: what pod printed, the condition, the member.
condition() {
    printf '%s\n' "$1" |
        sed -n "/\"type\": \"$2\"/,/}/s/^ *\"$3\": \"\([^\"]*\)\".*/\1/p"
}

begin() {
    event job "$(now)" "\"gpus\":$GPUS,\"labels\":{\"node\":\"$NODE_NAME\"}"
    event attempt_started "$(now)" "\"gpus\":$GPUS,\"hosts\":1"
    as_made=$(pod) || return 0
    created=$(printf '%s\n' "$as_made" |
        sed -n 's/^ *"creationTimestamp": "\([^"]*\)".*/\1/p' | head -n 1)
    scheduled=$(condition "$as_made" PodScheduled lastTransitionTime)
    if [ -n "$scheduled" ]; then
        event span "$scheduled" "\"phase\":\"scheduling\",\"start\":\"$created\""
        event phase_started "$scheduled" '"phase":"hardware_setup"'
    fi
}

watch() {
    if [ -z "$started" ] && [ -f $shared/started ]; then
        started=$(cat $shared/started)
        [ -z "$scheduled" ] || event phase_ended "$started" '"phase":"hardware_setup"'
    fi
    if [ -z "$stopping" ] && [ -f $shared/stopping ]; then
        stopping=$(cat $shared/stopping)
        event phase_started "$stopping" '"phase":"shutdown"'
    fi
}

# Kubernetes stops a sidecar once the trainer is gone.
end() {
    watch
    code=$(cat $shared/exit 2> /dev/null)
    at_end=$(pod) || at_end=
    disruption=$(condition "$at_end" DisruptionTarget reason)
    outcome=failed
    members=${code:+,\"exit_code\":$code}
    case $disruption in
        PreemptionByScheduler | EvictionByEvictionAPI) outcome=preempted ;;
        '')
            if [ -n "$stopping" ]; then
                outcome=cancelled
            elif [ "$code" = 0 ]; then
                outcome=completed
            fi
            ;;
    esac
    if printf '%s\n' "$at_end" | grep -q '"reason": "OOMKilled"'; then
        disruption=${disruption:-OOMKilled}
    fi
    members="\"outcome\":\"$outcome\"$members${disruption:+,\"scheduler_state\":\"$disruption\"}"
    event attempt_ended "$(now)" "$members"
    [ $outcome != completed ] || event job_ended "$(now)" "$members"
    for _ in 1 2 3 4 5; do # within the grace period of the pod
        deliver && break
        sleep 2
    done
}

waiting='' started='' stopping='' scheduled=''
: > "$shared/ready" # from here on a stop is recorded, however soon it comes
begin
while [ -z "$over" ]; do
    watch
    deliver
    sleep 1 &
    wait $!
done
end
exit 0
