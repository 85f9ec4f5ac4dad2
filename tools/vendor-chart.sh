#!/bin/sh
# Usage: tools/vendor-chart.sh VERSION
#
# Takes Chart.js, as its npm package has it, into the pages, with a manifest of where it came from.
set -eu
vendor=$(dirname "$0")/../src/tacit/server/site/pages/vendor
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "chart.js@$1" >/dev/null
tar -xzf "$folder/chart.js-$1.tgz" -C "$folder"
cp "$folder/package/dist/chart.umd.min.js" "$vendor/chart.umd.min.js"
cp "$folder/package/LICENSE.md" "$vendor/chart.LICENSE.md"
cat >"$vendor/manifest.json" <<END
{
  "name": "chart.js",
  "version": "$1",
  "license": "MIT",
  "source": "dist/chart.umd.min.js",
  "file": "chart.umd.min.js",
  "sha256": "$(sha256sum <"$vendor/chart.umd.min.js" | cut -d' ' -f1)",
  "integrity": "sha512-$(openssl dgst -sha512 -binary "$folder/chart.js-$1.tgz" | base64 | tr -d '\n')"
}
END
