#!/bin/sh
# What a fresh machine needs, each checked, and the command that installs what is missing.
missing=0
need() { # what, how to get it
    echo "setup: $1 is missing. Install it with: $2" >&2
    missing=1
}
if ! command -v python3 >/dev/null 2>&1; then
    need "Python 3.11 or newer" "apt-get install python3 python3-venv"
else
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || need "Python 3.11 or newer (this is $(python3 -V))" "apt-get install python3.11 python3.11-venv"
    python3 -c 'import venv, ensurepip' 2>/dev/null || need "Python's venv module" "apt-get install python3-venv"
fi
if ! command -v java >/dev/null 2>&1; then
    need "a Java 17 runtime (Spark runs on it)" "apt-get install openjdk-17-jre-headless"
else
    version=$(java -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ] || need "a Java 17 runtime (this is $version)" "apt-get install openjdk-17-jre-headless"
fi
exit $missing
