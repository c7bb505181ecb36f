# shellcheck shell=sh disable=SC2034  # its readers use what it sets
# How prolog.sh and epilog.sh write events.

umask 077
running="$ETT_SPOOL/running" # a file for each attempt that has begun, named by Slurm's job id
unsent="$ETT_SPOOL/unsent"
most_unsent=10000

# Print a text as JSON. Names hold few characters, so that all of them can be quoted and stored.
quoted() {
    printf '"%s"' "$(printf %s "$1" | LC_ALL=C tr -c 'A-Za-z0-9 ._:@+=,()-' _ | cut -c 1-200)"
}

# Print a member with a comma before it, unless Slurm has no value for it.
member() {
    case $2 in
        '' | '(null)') ;;
        *) printf ',"%s":%s' "$1" "$(quoted "$2")" ;;
    esac
}

# Print the attribute that tells launches apart which two clusters gave the same id. $1: the cluster.
of_cluster() {
    case $1 in
        '' | '(null)') ;;
        *) printf ',"attributes":{"slurm.cluster.name":%s}' "$(quoted "$1")" ;;
    esac
}

# Print an instant with an offset: now, or @ and seconds since 1970.
instant() {
    date -u -d "$1" +%Y-%m-%dT%H:%M:%S.%6NZ
}

# Print when a job could have begun, in seconds since 1970; nothing: Slurm knows it no more.
# $1: its id, $2: when it was submitted, which tells its lives apart, $3: when it began.
eligible_of() {
    times=$(
        unset SLURM_TIME_FORMAT
        timeout 2 scontrol --oneliner show job "$1" 2> /dev/null |
            sed -n "s/^JobId=$1 .* SubmitTime=\([^ ]*\) EligibleTime=\([^ ]*\) .*/\1 \2/p" | head -n 1
    )
    [ "$(date -d "${times% *}" +%s 2> /dev/null)" = "$2" ] || return 0
    at=$(date -d "${times#* }" +%s 2> /dev/null) || return 0
    [ "$at" -ge "$2" ] || at=$2
    [ "$at" -le "$3" ] || at=$3
    echo "$at"
}

# Write a batch of events, and send it without anybody waiting for it.
record() {
    mkdir -p "$unsent" || return
    [ "$(find "$unsent" -name '*.json' | wc -l)" -lt "$most_unsent" ] || return
    batch="$unsent/$(date +%s%N)-$$"
    printf '{"events":[%s]}\n' "$1" > "$batch.new" && mv "$batch.new" "$batch.json" || return
    setsid "${here:?}/deliver.sh" < /dev/null > /dev/null 2>&1 &
}
