#!/bin/sh
# Leaves a key of scope `fleet` where Prometheus reads it, unless the one that lies there stands.
set -eu

file="${1:?where to leave the key}"
if [ -s "$file" ] && ett keys list --json | python -c '
import json, sys
mine = [key for key in json.load(sys.stdin) if sys.argv[1].startswith(key["prefix"])]
sys.exit(not any(key["revoked_at"] is None for key in mine))
' "$(cat "$file")"; then
    echo "The key in $file stands."
    exit
fi
ett keys create --project default --name prometheus --scope fleet > "$file.new"
mv "$file.new" "$file"
echo "A new key lies in $file."
