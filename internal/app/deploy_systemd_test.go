package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// beforeCommands comes before the commands of docs/operate/deploy.md in the script of TestUnitUnderSystemd.
const beforeCommands = `
set -euxo pipefail
export HOME=/root
cd
until_true() { for _ in $(seq 300); do if "$@"; then return; fi; sleep 0.1; done; return 1; }
serving() { (: </dev/tcp/127.0.0.1/8101) 2>/dev/null && (: </dev/tcp/127.0.0.1/8102) 2>/dev/null; }
restarted_once() { test "$(systemctl show --property=NRestarts --value fleet)" = 1; }
stopped() { ! pgrep -u fleet; }
`

// afterCommands continues the commands of docs/operate/deploy.md. A task must survive a restart and a kill of the server, the
// client that follows it must notice only a reconnect, and nothing must run after the unit has stopped.
const afterCommands = `
touch /home/seen
install -d -o fleet /srv/own
export FLEET_TOKEN_FILE=~/.fleet-token
fleet agent create papi --project shell --spec x
fleet task run papi 'echo begun; read -r line < $FLEET_MESSAGES; echo "$line"; id -un && test ! -e /home/seen && ! touch /srv/own/x' --follow > followed 2>&1 &
until_true grep -q begun followed
systemctl restart fleet
until_true serving
systemctl kill --signal=KILL --kill-whom=main fleet
until_true restarted_once
until_true serving
fleet task message papi "it goes on"
wait $!
grep -Fx "it goes on" followed
grep -Fx fleet followed
pgrep -u fleet
systemctl stop fleet
until_true stopped
`

// TestUnitUnderSystemd boots systemd in a container whose files are those of this system, with changes that are kept in memory. In
// the container, it runs the commands of docs/operate/deploy.md. make test-systemd runs the test as root.
func TestUnitUnderSystemd(t *testing.T) {
	t.Parallel()
	if os.Getenv("TEST_SYSTEMD") == "" {
		t.Skip("make test-systemd runs this test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	run := func(name string, arg ...string) string {
		out, err := exec.CommandContext(ctx, name, arg...).CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, arg, out)
		return string(out)
	}
	_, section, _ := strings.Cut(readRepository(t, "docs/operate/deploy.md"), "\n## One server with systemd\n")
	section, _, _ = strings.Cut(section, "\n### Repositories\n")
	commands := strings.Join(regexp.MustCompile(`(?m)^    .+$`).FindAllString(section, -1), "\n")
	commands = strings.NewReplacer(
		"VERSION", "test",
		"# write `auth: tokens` into /etc/fleet/fleet.yaml", "sed -i 's/^# auth: none/auth: tokens/' /etc/fleet/fleet.yaml",
		"systemctl restart fleet", "systemctl restart fleet; until_true serving",
	).Replace(commands)

	memory := t.TempDir()
	run("mount", "-t", "tmpfs", "tmpfs", memory)
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", memory).Run()) }) //nolint:noctx // t.Context() has ended
	root := filepath.Join(memory, "root")
	for _, dir := range []string{root, filepath.Join(memory, "changes"), filepath.Join(memory, "work")} {
		require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // the user of the unit must reach its files
	}
	run("mount", "-t", "overlay", "overlay", "-o", fmt.Sprintf("lowerdir=/,upperdir=%s/changes,workdir=%[1]s/work", memory), root)
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", root).Run()) }) //nolint:noctx // see above

	archive := "fleet_test_linux_amd64"
	require.NoError(t, os.MkdirAll(filepath.Join(memory, archive), 0o755)) //nolint:gosec // as in a release
	for _, path := range []string{"bin/fleet", "bin/fleet-runner-linux-amd64", "bin/fleet-runner-linux-arm64", "README.md", "docs", "docs/operate/deploy/fleet.service"} {
		run("cp", "-R", filepath.Join(repository, path), filepath.Join(memory, archive))
	}
	run("tar", "czf", filepath.Join(root, "root", archive+".tar.gz"), "-C", memory, archive)
	script := beforeCommands + commands + afterCommands
	unit := "[Service]\nType=oneshot\nTimeoutStartSec=300\nExecStart=/bin/bash /root/test.sh\nStandardOutput=file:/root/out\nStandardError=inherit\n" +
		"ExecStopPost=/bin/sh -c 'echo $EXIT_STATUS >/root/status; journalctl --no-pager --unit=fleet >>/root/out; systemctl poweroff --no-block'\n"
	for path, content := range map[string]string{"root/test.sh": script, "etc/systemd/system/fleet-test.service": unit} {
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(content), 0o644)) //nolint:gosec // systemd reads it
	}
	boot := run("systemd-nspawn", "--register=no", "--keep-unit", "--directory="+root, "--machine=fleet-test", "--boot", "--", "systemd.wants=fleet-test.service")
	out, err := os.ReadFile(filepath.Join(root, "root/out"))
	require.NoError(t, err, boot)
	status, err := os.ReadFile(filepath.Join(root, "root/status"))
	require.NoError(t, err, "%s", out)
	require.Equal(t, "0\n", string(status), "%s", out)
	require.Contains(t, string(out), "status=9/KILL")
}
