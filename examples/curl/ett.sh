# shellcheck shell=sh
# Record an attempt from a shell with curl alone: a script reads this file with `.`
#
#     ETT_URL, ETT_API_KEY  the service, and a key with the scope `write`
#     ETT_JOB               the name of the job, without quotation marks and backslashes
#     ETT_LAUNCH            the submission, else SLURM_JOB_ID, else a name of its own
#     ETT_ATTEMPT           its restarts of that submission, else SLURM_RESTART_COUNT, else 0
#     ETT_SPOOL             the folder of unsent events, else ett-spool
#
# An event is a line in a file: it waits for no network, and costs some milliseconds. A process in
# the background sends new lines every few seconds. What an outage or a crash left is sent by the
# next attempt that has the same folder. The service derives the id of an event from what it says,
# so what is sent twice counts once.

ett_folder=${ETT_SPOOL:-ett-spool}
ett_lines=$ett_folder/events.ndjson
ett_sent=$ett_folder/sent # how many of the lines the service has
ett_most=5000             # lines in a batch

ett_now() {
    # Where date has no fractions of a second, whole ones will do.
    date -u +%Y-%m-%dT%H:%M:%S.%6NZ | sed 's/\.[0-9]*[^0-9Z].*$/Z/'
}

# Write an event: its type, then its own members as JSON.
ett_event() {
    printf '{"type":"%s","job":"%s","launch":"%s","attempt":%d,"at":"%s"%s}\n' \
        "$1" "$ETT_JOB" "$ett_launch" "$ett_attempt" "$(ett_now)" "${2:+,$2}" >> "$ett_lines"
}

# Send what is new; succeed once the service has all of it. The answer to each batch is kept.
ett_send() {
    while
        sent=$(cat "$ett_sent" 2> /dev/null || echo 0)
        all=$(wc -l < "$ett_lines")
        [ "$sent" -lt "$all" ]
    do
        last=$((all - sent > ett_most ? sent + ett_most : all))
        status=$(sed -n "$((sent + 1)),${last}p" "$ett_lines" |
            curl -q --config "$ett_folder/curl" --silent --connect-timeout 3 --max-time 10 \
                --header 'Content-Type: application/x-ndjson' --data-binary @- \
                --output "$ett_folder/answer" --write-out '%{http_code}')
        case $status in
            200 | 400 | 413 | 415 | 422) # what is refused now would always be
                cat "$ett_folder/answer" >> "$ett_folder/answers"
                echo "$last" > "$ett_sent"
                ;;
            *) return 1 ;;
        esac
    done
}

ett_begin() {
    mkdir -p "$ett_folder"
    ett_launch=${ETT_LAUNCH:-${SLURM_JOB_ID:-$(date +%s)-$$}}
    ett_attempt=${ETT_ATTEMPT:-${SLURM_RESTART_COUNT:-0}}
    # The key stands in a file that only its owner may read, and on no command line.
    (umask 077 && : > "$ett_folder/curl")
    printf 'url = "%s/v1/events"\nheader = "Authorization: Bearer %s"\n' \
        "$ETT_URL" "$ETT_API_KEY" > "$ett_folder/curl"
    ett_event attempt_started "${1:-}"
    (while sleep 5; do ett_send; done) < /dev/null > /dev/null 2>&1 &
    ett_sender=$!
}

# Say how the attempt ended, by an exit code, and wait at most some seconds for the service.
ett_end() {
    ett_outcome=completed
    [ "$1" = 0 ] || ett_outcome=failed
    ett_event attempt_ended "\"outcome\":\"$ett_outcome\",\"exit_code\":$1"
    [ "$1" != 0 ] || ett_event job_ended '"outcome":"completed"'
    kill "$ett_sender" 2> /dev/null
    wait "$ett_sender" 2> /dev/null
    ett_send || echo "ett: $(($(wc -l < "$ett_lines") - $(cat "$ett_sent" 2> /dev/null || echo 0)))" \
        "events are not sent; they lie in $ett_folder" >&2
}
