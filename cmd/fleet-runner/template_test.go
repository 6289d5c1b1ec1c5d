package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/waittest"
)

// TestTemplate runs the script of docs/templates/fleet-runner as a workspace does. The script must run the setup commands, download
// the program, refuse a program with a wrong checksum, restart the program if it ends, and remove variables that the agent must not
// see.
func TestTemplate(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it builds the program")
	}
	for _, tool := range []string{"bash", "curl", "flock", "sha256sum", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	home := t.TempDir()
	program := filepath.Join(t.TempDir(), "fleet-runner-"+runtime.GOARCH)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(program)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	public, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())

	setup := "export OF_THE_TEMPLATE=$((1+1))"
	start := func(key, sum string) (string, error) {
		script, err := filepath.Abs("../../docs/templates/fleet-runner/run.sh")
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "bash", script)
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "CODER_AGENT_TOKEN=secret", "GIT_ASKPASS=secret"}
		for name, value := range map[string]string{
			"KEY": key, "ARGS": "-driver\nshell\n-listen\n" + address, "SETUP": setup, "URL": "file://" + filepath.Dir(program) + "/fleet-runner-{arch}",
			"SHA256_amd64": sum, "SHA256_arm64": sum,
		} {
			cmd.Env = append(cmd.Env, "RUNNER_"+name+"="+base64.StdEncoding.EncodeToString([]byte(value)))
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	key := base64.StdEncoding.EncodeToString(public)
	output, err := start(key, strings.Repeat("0", 64))
	require.Error(t, err)
	require.Contains(t, output, "another checksum")
	output, err = start("", hex.EncodeToString(sum[:]))
	require.NoError(t, err)
	require.Contains(t, output, "not made by Fleet")
	validSetup := setup
	setup = "echo cannot clone; false\necho not reached"
	output, err = start(key, hex.EncodeToString(sum[:]))
	require.Error(t, err)
	require.Equal(t, "cannot clone\n", output)
	setup = validSetup
	t.Cleanup(func() {
		for _, pid := range processesOfHome(t, home) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	for range 2 { // the second script finds the running program
		output, err = start(key, hex.EncodeToString(sum[:]))
		require.NoError(t, err, output)
		waitUntilHealthy(t, address)
	}
	pids := processesOfHome(t, home)
	require.Len(t, pids, 2, "the runner and the shell that keeps it running must run")
	for _, pid := range pids {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		require.NoError(t, err)
		require.NotContains(t, string(env), "secret")
		require.Contains(t, string(env), "OF_THE_TEMPLATE=2")
		if exe, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); strings.Contains(exe, "fleet-runner") {
			killAndWait(t, pid)
		}
	}
	waitUntilHealthy(t, address)
}

// waitUntilHealthy waits until the program serves at the address.
func waitUntilHealthy(t *testing.T, address string) {
	t.Helper()
	waittest.Until(t, "no signal reports that the program serves", func() bool {
		resp, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// killAndWait kills the process and waits for its end.
func killAndWait(t *testing.T, pid int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0) // becomes readable when the process ends
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(waittest.Limit.Milliseconds()))
	}
	require.NoError(t, err)
	require.NoError(t, unix.Close(pidfd))
}

// processesOfHome returns the process ids of the processes whose variable HOME is the directory home.
func processesOfHome(t *testing.T, home string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range all {
		env, _ := os.ReadFile(path)
		if strings.Contains("\x00"+string(env), "\x00HOME="+home+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
