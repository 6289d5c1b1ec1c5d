package local_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

func needSandbox(t *testing.T) {
	t.Helper()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
}

// TestAttacks has an agent attack what is not its own. Each line of its script is one attack, and must fail.
func TestAttacks(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	user := t.TempDir() // the home of the user who runs the server
	for _, name := range []string{".bashrc", ".ssh/id_ed25519", ".ssh/authorized_keys"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(user, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(user, name), []byte("whole"), 0o600))
	}
	w := newWorld(t, func(c *local.Config) { c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + user} })
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "fleet.db"), []byte("whole"), 0o600))
	other := w.agent("shell")
	_, o := w.do(other, `echo whole >file; echo whole >"$HOME/file"`)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	working := w.start(other, `echo begun; sleep 3600`)
	w.until(other, working, "begun")
	theirs := shim.Run(w.runDir(other, working))

	a := w.agent("shell")
	attacks := []string{
		"cat " + filepath.Join(w.dir, "fleet.db"),
		"ls " + w.dir,
		"echo attacked >>" + filepath.Join(w.dir, "fleet.db"),
		"mv " + filepath.Join(w.dir, "fleet.db") + " stolen",
		"cat " + w.home(other, "work", "file"),
		"cat " + w.home(other, "home", "file"),
		"echo attacked >" + w.home(other, "work", "file"),
		"rm -rf " + w.home(other, "work"),
		"ls " + w.home(other, "work"),
		"cat " + theirs.Path("output"),
		"cat " + theirs.Path("run.json"),
		"cat " + w.home(a, "agent.json"),
		"echo '{}' >" + w.home(a, "agent.json"),
		"echo attacked >>" + w.home(a, "log"),
		"mv " + w.home(a, "runs") + " elsewhere",
		"cat " + filepath.Join(user, ".ssh/id_ed25519"),
		"echo attacked >>" + filepath.Join(user, ".ssh/authorized_keys"),
		"echo attacked >>" + filepath.Join(user, ".bashrc"),
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
		fmt.Sprintf("kill -KILL %d", shimOf(t, theirs)),
		fmt.Sprintf("cat /proc/%d/environ", shimOf(t, theirs)),
		"touch /tmp/fleet-attack-" + a.UID,
		"echo attacked >/dev/shm/fleet-attack-" + a.UID,
		"touch work-of-others/../../../attack",
		"chmod u+s program",
		"unshare -U true",
	}
	script := `RUN=$(dirname "$FLEET_RUN_DIR"); touch program; mkdir work-of-others` + "\n"
	for i, attack := range attacks {
		script += fmt.Sprintf("if ( %s ) </dev/null >/dev/null 2>&1; then echo %d succeeded; fi\n", attack, i)
	}
	_, o = w.do(a, "set +e\n"+script+"echo done")
	require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
	for line := range strings.Lines(string(o.Payload)) {
		var i int
		if _, err := fmt.Sscanf(line, "%d succeeded", &i); err == nil {
			t.Errorf("the attack succeeded: %s", attacks[i])
		}
	}
	require.Equal(t, "done", o.Summary)
	for _, path := range []string{filepath.Join(w.dir, "fleet.db"), filepath.Join(user, ".bashrc"), filepath.Join(user, ".ssh/authorized_keys")} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "whole", string(b), path)
	}
	require.NoError(t, w.Connect(other).Interrupt(w.ctx, working, true))
}

// TestOwnPlaces holds that an agent has a home and a directory for temporary files of its own, and that its commits are
// from the user who runs the server.
func TestOwnPlaces(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	user := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(user, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[core]\n\tpager = /home/secret\n"), 0o600))
	w := newWorld(t, func(c *local.Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + user, "XDG_CONFIG_HOME=" + user}
	})
	a := w.agent("shell")
	_, o := w.do(a, `touch "$HOME/x" "$(mktemp)" && cat <<<here && env; git config --global --list; git init -q . && git commit -q --allow-empty -m one && git log --format='%an <%ae>'`)
	require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
	require.Equal(t, "Ada <ada@example.com>", o.Summary)
	said := string(o.Payload)
	for _, want := range []string{"here", "HOME=" + w.home(a, "home"), "TMPDIR=" + w.home(a, "tmp"), "CLAUDE_CONFIG_DIR=" + w.home(a, "home", ".claude")} {
		require.Contains(t, said, want)
	}
	require.NotContains(t, said, "XDG_")
	require.NotContains(t, said, "secret")
}

// TestNetworkNone holds that a project without a network has none, and that a project may list what its agents can read.
func TestNetworkNone(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	docs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(docs, "manual"), []byte("read me"), 0o600))
	w := newWorld(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "full"}, {Name: "offline", Network: sandbox.Offline, Read: []string{docs}}, {Name: "open", Sandbox: sandbox.None}}
	})
	dial := "exec 9<>/dev/tcp/127.0.0.1/" + port + "; echo connected"
	_, o := w.do(w.agent("full"), dial)
	require.Equal(t, "connected", o.Summary, "%+v", o)
	_, o = w.do(w.agent("full"), "cat "+filepath.Join(docs, "manual"))
	require.Equal(t, fleet.TaskFailed, o.Status)
	_, o = w.do(w.agent("offline"), dial)
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Contains(t, o.Reason, "Permission denied")
	_, o = w.do(w.agent("offline"), "cat "+filepath.Join(docs, "manual"))
	require.Equal(t, "read me", o.Summary)
	_, o = w.do(w.agent("open"), "cat "+filepath.Join(docs, "manual"))
	require.Equal(t, "read me", o.Summary)
}

// TestUnconfined holds that a place says of which agents it does not confine the programs.
func TestUnconfined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "shell"}, {Name: "open", Sandbox: sandbox.None}}
	})
	require.NotEmpty(t, w.Unconfined(fleet.Agent{Project: "open"}))
	if err := sandbox.Available(); err != nil {
		require.Contains(t, w.Unconfined(fleet.Agent{Project: "shell"}), "Linux 6.12")
		return
	}
	require.Empty(t, w.Unconfined(fleet.Agent{Project: "shell"}))
	_, err := local.New(local.Config{Dir: t.TempDir(), ShimCommand: []string{"x"}, Projects: []local.Project{{Name: "p", Sandbox: "none", Network: "none"}}})
	require.ErrorContains(t, err, "network none needs a sandbox")
}

// BenchmarkStart measures a run of a program that does nothing.
func BenchmarkStart(b *testing.B) {
	for _, mode := range []sandbox.Mode{sandbox.Auto, sandbox.None} {
		b.Run(string(mode), func(b *testing.B) {
			p := newBackend(b, b.TempDir(), func(c *local.Config) { c.Sandbox = mode })
			defer func() { _ = p.Close() }()
			a := fleet.Agent{UID: "uid", Name: "papi", Project: "shell", Role: "coder"}
			_, err := p.Provision(b.Context(), a)
			require.NoError(b, err)
			for b.Loop() {
				r := newRun("true")
				require.NoError(b, p.Connect(a).Dispatch(b.Context(), r))
				_, err := p.Connect(a).Follow(b.Context(), r, "", func(fleet.Output) error { return nil })
				require.NoError(b, err)
			}
		})
	}
}
