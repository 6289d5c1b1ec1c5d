package local_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// requireSandbox skips the test if this machine has no sandbox.
func requireSandbox(t *testing.T) {
	t.Helper()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
}

// TestAttacks runs an agent that attacks files and processes of others. Each attack must fail.
func TestAttacks(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	userHome := t.TempDir() // the home of the user who runs the server
	for _, name := range []string{".bashrc", ".ssh/id_ed25519", ".ssh/authorized_keys"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(userHome, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(userHome, name), []byte("whole"), 0o600))
	}
	w := newTestPlace(t, func(c *local.Config) { c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + userHome} })
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "fleet.db"), []byte("whole"), 0o600))
	other := w.provisionIn("shell")
	w.mustRun(other, `echo whole >file; echo whole >"$HOME/file"`)
	working := w.start(other, `echo begun; sleep 3600`)
	w.followUntil(other, working, "begun")
	otherRun := shim.Run(w.runDir(other, working))

	a := w.provisionIn("shell")
	attacks := []string{
		"cat " + filepath.Join(w.dir, "fleet.db"),
		"ls " + w.dir,
		"echo attacked >>" + filepath.Join(w.dir, "fleet.db"),
		"mv " + filepath.Join(w.dir, "fleet.db") + " stolen",
		"cat " + w.home(other, "work", "file"),
		"cat " + w.home(other, "home", "file"),
		"echo attacked >" + w.home(other, "work", "file"),
		"[ -e '" + w.home(other, "work") + "' ] && rm -rf '" + w.home(other, "work") + "'",
		"ls " + w.home(other, "work"),
		"cat " + otherRun.Path("output"),
		"cat " + otherRun.Path("run.json"),
		"cat " + w.home(a, "agent.json"),
		"echo '{}' >" + w.home(a, "agent.json"),
		"echo attacked >>" + w.home(a, "log"),
		"mv " + w.home(a, "runs") + " elsewhere",
		"cat " + filepath.Join(userHome, ".ssh/id_ed25519"),
		"echo attacked >>" + filepath.Join(userHome, ".ssh/authorized_keys"),
		"echo attacked >>" + filepath.Join(userHome, ".bashrc"),
		`echo attacked >>"$RUN/output"`,
		`echo attacked >"$RUN/exit.json"`,
		`rm "$RUN/run.json"`,
		`rm "$RUN/claim"`,
		`mv "$RUN" elsewhere`,
		`ln "$RUN/run.json" linked && echo attacked >linked`,
		"kill -STOP $PPID",
		"kill -KILL $PPID",
		"env -i kill -KILL $PPID",
		"cat /proc/$PPID/environ",
		fmt.Sprintf("kill -STOP %d", os.Getpid()),
		fmt.Sprintf("cat /proc/%d/environ", os.Getpid()),
		fmt.Sprintf("kill -KILL %d", supervisorPID(t, otherRun)),
		fmt.Sprintf("cat /proc/%d/environ", supervisorPID(t, otherRun)),
		"echo attacked >>" + otherRun.Path("messages"),
		`perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un($ARGV[0])) or exit 1' ` + otherRun.Path("control"),
		"mv output " + otherRun.Path("output"),
		"echo '{}' >" + otherRun.Path("exit.json"),
		"touch /tmp/fleet-attack-" + a.UID,
		"echo attacked >/dev/shm/fleet-attack-" + a.UID,
		"touch work-of-others/../../../attack",
		"chmod u+s program",
		"unshare -U true",
	}
	w.runAttacks(a, `RUN=$(dirname "$FLEET_RUN_DIR"); touch program; mkdir work-of-others`, attacks)
	for _, path := range []string{filepath.Join(w.dir, "fleet.db"), filepath.Join(userHome, ".bashrc"), filepath.Join(userHome, ".ssh/authorized_keys")} {
		b := readFile(t, path)
		require.Equal(t, "whole", b, path)
	}
	w.kill(other, working)
}

// TestOwnDirectories checks that an agent has its own home and temporary directory, and that its commits have the
// author that the server's user has configured.
func TestOwnDirectories(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	userHome := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(userHome, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[core]\n\tpager = /home/secret\n"), 0o600))
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + userHome, "XDG_CONFIG_HOME=" + userHome}
	})
	a := w.provisionIn("shell")
	output := w.mustRun(a, `touch "$HOME/x" "$(mktemp)" && cat <<<here && env; git config --global --list; git init -q . && git commit -q --allow-empty -m one && git log --format='%an <%ae>'`)
	for _, want := range []string{"here", "Ada <ada@example.com>", "HOME=" + w.home(a, "home"), "TMPDIR=" + w.home(a, "tmp"), "CLAUDE_CONFIG_DIR=" + w.home(a, "home", ".claude")} {
		require.Contains(t, output, want)
	}
	require.NotContains(t, output, "XDG_")
	require.NotContains(t, output, "secret")
}

// TestGitAuthorConfiguredLater checks that agents use the git author of the server's user even if the user configures
// it after the agents were created.
func TestGitAuthorConfiguredLater(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	userHome := t.TempDir()
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + userHome}
	})
	a := w.provisionIn("shell")
	script := `git config user.name`
	require.Equal(t, "papi (Fleet)", w.mustRun(a, script))
	require.NoError(t, os.WriteFile(filepath.Join(userHome, ".gitconfig"), []byte("[user]\n\tname = \"Ada \\\"Countess\\\" L\"\n"), 0o600))
	require.Equal(t, `Ada "Countess" L`, w.mustRun(a, script))
}

// TestNetworkNone checks that programs of a project without network cannot connect.
func TestNetworkNone(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "full"}, {Name: "offline", Network: sandbox.Offline}}
	})
	dial := "exec 9<>/dev/tcp/127.0.0.1/" + port + "; echo connected"
	require.Equal(t, "connected", w.mustRun(w.provisionIn("full"), dial))
	_, o := w.runTask(w.provisionIn("offline"), dial)
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Contains(t, o.Reason, "Permission denied")
}

// TestReadOfProject checks that confined programs can read a file of people only if their project lists its directory.
func TestReadOfProject(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	docs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(docs, "manual"), []byte("read me"), 0o600))
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "closed"}, {Name: "listed", Network: sandbox.Offline, Read: []string{docs}}, {Name: "open", Sandbox: sandbox.None}}
	})
	script := "cat " + filepath.Join(docs, "manual")
	_, o := w.runTask(w.provisionIn("closed"), script)
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Equal(t, "read me", w.mustRun(w.provisionIn("listed"), script))
	require.Equal(t, "read me", w.mustRun(w.provisionIn("open"), script))
}

// TestNetworkAllow checks that programs reach only the addresses that the project lists. The proxy must not delay the end of a
// run.
func TestNetworkAllow(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	if _, err := sandbox.Choose("", sandbox.Allow()); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	serve := func() string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "reached") }))
		t.Cleanup(s.Close)
		return s.URL
	}
	allowed, other := serve(), serve()
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "some", Network: sandbox.Allow(strings.TrimPrefix(allowed, "http://"))}}
	})
	a := w.provisionIn("some")
	require.Equal(t, "reached", w.mustRun(a, "curl -sS -f "+allowed))
	_, o := w.runTask(a, "curl -sS "+other)
	require.Contains(t, o.Summary, "the project does not allow "+strings.TrimPrefix(other, "http://"))
	_, o = w.runTask(a, "curl -sS --noproxy '*' "+allowed)
	require.Equal(t, fleet.TaskFailed, o.Status)

	r := w.startUntil(a, "echo begun; sleep 3600", "begun")
	require.True(t, slices.ContainsFunc(processesIn(t, ""), func(line string) bool {
		pid, command, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(command, "fleet-proxy") || !strings.Contains(command, strings.TrimPrefix(allowed, "http://")) {
			return false
		}
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		return err == nil && strings.Contains(string(status), "NoNewPrivs:\t1") && strings.Contains(string(status), "Seccomp:\t2")
	}), "the proxy must be confined, so that Fleet's own API does not take it for the server's user")
	w.kill(a, r)
	_, o = w.follow(a, r)
	require.Equal(t, fleet.TaskStopped, o.Status)
	require.False(t, slices.ContainsFunc(processesIn(t, ""), func(line string) bool {
		return strings.Contains(line, "fleet-proxy") && strings.Contains(line, strings.TrimPrefix(allowed, "http://"))
	}), "the proxy must end with its program")
}

// TestUnconfinedReason checks that UnconfinedReason reports agents that are not confined, and that a project cannot have a network limit
// without a sandbox.
func TestUnconfinedReason(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "shell"}, {Name: "open", Sandbox: sandbox.None}}
	})
	require.NotEmpty(t, w.UnconfinedReason(fleet.Agent{Project: "open"}))
	if err := sandbox.Available(); err != nil {
		require.Contains(t, w.UnconfinedReason(fleet.Agent{Project: "shell"}), "Linux 6.12")
		return
	}
	require.Empty(t, w.UnconfinedReason(fleet.Agent{Project: "shell"}))
	_, err := local.New(local.Config{Dir: t.TempDir(), Program: "x", Projects: []local.Project{{Name: "p", Sandbox: "none", Network: "none"}}})
	require.ErrorContains(t, err, "network none needs a sandbox")
}

// TestHomeSettings checks that Gemini CLI finds its settings in the agent's home, and that Fleet writes nothing through
// a symbolic link of the agent.
func TestHomeSettings(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	program := filepath.Join(dir, "gemini")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "gemini", Driver: "acp", Command: []string{program, "--acp"}}}
	})
	a := w.provisionIn("gemini")
	_, o := w.runTask(a, "go")
	require.Contains(t, o.Reason, "tested with 0.61.0")
	settings := w.home(a, "home", ".gemini", "settings.json")
	text := readFile(t, settings)
	require.Contains(t, text, "sessionRetention")

	require.NoError(t, os.WriteFile(settings, []byte("{}"), 0o600))
	w.runTask(a, "go")
	text = readFile(t, settings)
	require.Equal(t, "{}", text, "existing files must not change")

	require.NoError(t, os.RemoveAll(filepath.Dir(settings)))
	require.NoError(t, os.Symlink(elsewhere, filepath.Dir(settings)))
	require.Error(t, w.Connect(a).Dispatch(w.ctx, newRun("go")))
	require.NoFileExists(t, filepath.Join(elsewhere, "settings.json"))
}

// TestHomeIsNotFollowed runs an agent that has replaced a directory in its home with a link. Fleet must write nothing outside
// the home, and no other agent may be affected.
func TestHomeIsNotFollowed(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	userHome := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(userHome, ".claude"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(userHome, ".claude", ".credentials.json"), []byte("{}"), 0o600))
	program := filepath.Join(userHome, "claude")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+`readlink $HOME/.claude/.credentials.json
		if [ "$1" = attack ]; then rm -r ~/.claude; ln -s `+userHome+` ~/.claude; fi`), 0o700))
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ, c.Read = append(os.Environ(), "HOME="+userHome), []string{program}
		c.Projects = []local.Project{{Name: "p", Driver: "command", Command: []string{program, "{{.Prompt}}"}}}
	})
	a, other := w.provisionIn("p"), w.provisionIn("p")
	_, o := w.runTask(a, "attack")
	require.Equal(t, filepath.Join(userHome, ".claude", ".credentials.json"), o.Summary, "%+v", o)
	requireError(t, w.Connect(a).Dispatch(w.ctx, newRun("one")), fleet.ReasonProvisioningFailed, "replaced .claude")
	require.NoFileExists(t, filepath.Join(userHome, ".credentials.json"))
	w.mustRun(other, "two")
}
