#!/bin/sh
# Runs once, when the database is made: the service owns its tables and nothing else, Grafana reads
# the views and nothing else.
set -eu

for password in "${POSTGRES_PASSWORD:-}" "$SERVICE_PASSWORD" "$READER_PASSWORD"; do
    case $password in
        change-me | change_me | changeme | example | password | secret)
            echo "A password is an example's word. Draw one: openssl rand -hex 24" >&2
            exit 1
            ;;
    esac
done

psql --no-psqlrc --set ON_ERROR_STOP=1 --quiet \
    --set service_password="$SERVICE_PASSWORD" --set reader_password="$READER_PASSWORD" \
    --username "$POSTGRES_USER" --dbname postgres <<'SQL'
CREATE ROLE ett LOGIN PASSWORD :'service_password';
CREATE ROLE ett_reader NOLOGIN;
CREATE ROLE grafana LOGIN PASSWORD :'reader_password' IN ROLE ett_reader;
ALTER ROLE grafana SET default_transaction_read_only = on;
ALTER ROLE grafana SET statement_timeout = '30s';
CREATE DATABASE ett OWNER ett;
REVOKE CONNECT, TEMPORARY ON DATABASE ett FROM PUBLIC;
GRANT CONNECT ON DATABASE ett TO grafana;
SQL
