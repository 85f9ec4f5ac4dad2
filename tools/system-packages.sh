#!/bin/sh
# Usage: tools/system-packages.sh chromium firefox-esr postgresql java npm nginx caddy wrk Rscript pandoc
#
# Sees to the programs that checks need and pip cannot bring. On Debian, as root, those that are missing are installed;
# elsewhere they are named, and the tests that need them are skipped, or fail where the variable CI is set.
set -eu

there() {
    case $1 in
        chromium) command -v chromium-headless-shell || command -v chromium || command -v google-chrome ;;
        postgresql) command -v initdb || ls /usr/lib/postgresql/*/bin/initdb ;;
        nginx) command -v nginx || ls /usr/sbin/nginx ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

packages() {
    case $1 in
        chromium) echo chromium-headless-shell chromium-sandbox fonts-liberation ;;
        postgresql) echo postgresql ;;
        java) echo default-jre-headless ;;
        Rscript) echo r-base-core r-cran-survey ;;
        nginx) echo nginx-light ;;
        *) echo "$1" ;;
    esac
}

lost() {
    case $1 in
        chromium) echo "the pages are not tested in a browser, and no screenshots can be made" ;;
        postgresql) echo "the service is not tested on PostgreSQL" ;;
        java) echo "the Spark engine is not tested on a cluster" ;;
        Rscript) echo "the recipe for R is not tested" ;;
        pandoc) echo "the paper's draft is not built" ;;
        firefox-esr) echo "the pages are not tested in a second browser" ;;
        caddy) echo "its example in deploy/ is not tested" ;;
        npm) echo "the types of the browser client are not checked" ;;
        wrk) echo "the load benchmark does not run" ;;
        nginx) echo "senders behind a proxy, and its example in deploy/, are not tested" ;;
        *) echo "whatever needs it does not run" ;;
    esac
}

# The tests start a PostgreSQL of their own: the package must not start one as well.
install() {
    clusters=/etc/postgresql-common/createcluster.d
    mkdir -p "$clusters"
    echo "create_main_cluster = false" >"$clusters/tacit.conf"
    trap 'rm -f "$clusters/tacit.conf"' EXIT
    apt-get update --quiet=2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends "$@" >/dev/null
}

wanted=
for program in "$@"; do
    there "$program" && continue
    for package in $(packages "$program"); do
        dpkg --status "$package" >/dev/null 2>&1 || wanted="$wanted $package"
    done
done
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing$wanted"
    # shellcheck disable=SC2086
    install $wanted || echo "apt-get could not install them" >&2
fi
for program in "$@"; do
    there "$program" || echo "!!! $program IS MISSING: $(lost "$program"). Debian: apt-get install $(packages "$program")" >&2
done
