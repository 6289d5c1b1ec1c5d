#!/usr/bin/env bash
# machine.sh up|down|remove: the test bed's, laid over the template's. Terraform's copy is gone after a build, so the work
# is done by scripts that stay: an up.sh after a down.sh starts the same machine again, without Terraform.
set -euo pipefail
exec "${MACHINE_HOME%/ws/*}/lib/machine-$1.sh" "$MACHINE_HOME"
