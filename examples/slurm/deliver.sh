#!/bin/sh
# Send what lies in the spool, oldest first, until the service does not answer.
#
# prolog.sh and epilog.sh start it in the background. After an outage the next of them sends
# what has piled up; a line for cron does so sooner. A batch is removed once the service has it.
# It holds fixed instants and ids: sent again, it counts nothing twice.
set -u
here=$(dirname "$0")
# shellcheck source=settings.sh
. "$here/settings.sh"

umask 077
refused="$ETT_SPOOL/refused"
answer="$ETT_SPOOL/answer"

post() {
    # --config brings the address and the key: neither stands on a command line.
    curl -q --config "$ETT_CURL" --silent --connect-timeout 3 --max-time 10 \
        --header 'Content-Type: application/json' --data-binary "@$1" \
        --output "$answer" --write-out '%{http_code}'
}

mkdir -p "$refused" || exit 0
exec 9> "$ETT_SPOOL/lock"
flock -w 20 9 || exit 0
for batch in "$ETT_SPOOL"/unsent/*.json; do
    [ -e "$batch" ] || break
    case $(post "$batch") in
        200)
            grep -q '"rejected": *0[,}]' "$answer" || cp "$answer" "$refused/$(basename "$batch").answer"
            rm -f "$batch"
            ;;
        400 | 413 | 415 | 422)
            mv "$batch" "$refused/"
            mv "$answer" "$refused/$(basename "$batch").answer"
            ;;
        *) break ;; # out of reach, overloaded or not allowed: later
    esac
done
exit 0
