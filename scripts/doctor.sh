#!/bin/sh
# What a machine needs, each checked, and the command that installs what is missing.
#   doctor.sh          what `make setup` needs; on standard output the Python to make the environment with
#   doctor.sh java     a Java 17 runtime besides, for Spark and ZooKeeper
#   doctor.sh test     which tests will be left out, and why; never fails
missing=0
need() { # what, how to get it
    echo "setup: $1 is missing. Install it with: $2" >&2
    missing=1
}

is_python() { # a command of Python 3.11 or newer
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

java_version() { # its first number, or 0
    java=java
    [ -z "${JAVA_HOME:-}" ] || [ ! -x "$JAVA_HOME/bin/java" ] || java=$JAVA_HOME/bin/java
    version=$("$java" -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')
    echo "${version:-0}"
}

JAVA="apt-get install openjdk-17-jre-headless"

check_python() {
    found=
    for python in "${PYTHON:-python3}" python3.11 python3.12 python3.13 python3.14; do
        if is_python "$python"; then found=$python; break; fi
    done
    if [ -z "$found" ]; then
        there=$(python3 -V 2>/dev/null) || there="none"
        need "Python 3.11 or newer (python3 is: $there)" "apt-get install python3.11 python3.11-venv (or name one: make PYTHON=...)"
    elif ! "$found" -c 'import venv, ensurepip' 2>/dev/null; then
        need "Python's venv module" "apt-get install python3-venv ($found -m venv must work)"
    elif [ -e .venv/bin ] && ! is_python .venv/bin/python; then
        echo "setup: .venv is of a Python that is gone or older than 3.11. Remove it: make clean" >&2
        missing=1
    fi
    if [ ! -e .venv/.ready ]; then
        free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
        [ "${free_mb:-9999}" -ge 2000 ] || need "room on the disk (2 GB; $free_mb MB are free here)" "a larger disk"
    fi
    [ $missing -ne 0 ] || echo "$found"
}

left_out() { # what is missing, which tests, how to get it
    echo "test: $1 is missing, $2 are left out. Install it with: $3"
}

case ${1:-} in
java)
    version=$(java_version)
    if [ "$version" -eq 0 ]; then
        need "a Java 17 runtime (Spark runs on it)" "$JAVA"
    elif [ "$version" -lt 17 ]; then
        need "a Java 17 runtime (this is $version)" "$JAVA"
    fi
    ;;
test)
    if [ "$(java_version)" -lt 17 ]; then
        left_out "a Java 17 runtime" "tests with Spark, ZooKeeper and Apache Kafka" "$JAVA"
    elif [ ! -e .jars/kafka-4.3.1/.complete ] && ! command -v mvn >/dev/null 2>&1; then
        left_out "Maven" "tests that compare with Apache Kafka" "apt-get install maven"
    fi
    command -v kcat >/dev/null 2>&1 || left_out "kcat" "tests of that client" "apt-get install kcat"
    exit 0
    ;;
*) check_python ;;
esac
exit $missing
