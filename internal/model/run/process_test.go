//go:build cgo

package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest/model"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

const shellDoc = workerDoc + `    toolsets: [{type: shell}]
permissions: {allow: [shell]}
`

// shell makes the agent run commands, and returns their outputs.
func (f *fixture) shell(commands ...string) []string {
	f.t.Helper()
	var calls []any
	for _, c := range commands {
		calls = append(calls, "shell", map[string]any{"cmd": c, "cwd": ""})
	}
	return f.callTools(calls...)
}

// TestSwappedDirectory checks that runs do not follow a symbolic link in place of the directory that a caller has chosen for the
// agent. A program of another agent could replace the directory with such a link.
func TestSwappedDirectory(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{"programs": shellDoc, "file tools": filesDoc} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "work")
			require.NoError(t, os.Mkdir(dir, 0o700))
			d := newFixture(t, fleet.AgentConfig{Document: document, Dir: dir}, nil)
			_, o := d.runTask("model: say ok")
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			require.NoError(t, os.Remove(dir))
			require.NoError(t, os.Symlink(t.TempDir(), dir))
			r := fleet.Run{TaskID: uuid.NewString(), Prompt: "model: say ok", Timeout: waittest.Limit, StartedAt: time.Now()}
			if err := d.place.Connect(d.agent).Dispatch(t.Context(), r); err != nil {
				require.ErrorContains(t, err, "symbolic link")
				return
			}
			_, o = d.waitForEnd(r)
			requireFailed(t, o, "directory")
		})
	}
}

// TestAttacks checks that the programs of an agent cannot read keys and files of others, and cannot change the records of
// Fleet about the agent and its runs.
func TestAttacks(t *testing.T) {
	t.Parallel()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	d := newFixture(t, fleet.AgentConfig{Document: shellDoc}, nil)
	victim := d.agent
	d.shell("echo mine > secret")
	db := filepath.Join(d.cfg.Dir, "..", "fleet.db")
	require.NoError(t, os.WriteFile(db, []byte("rows"), 0o600))
	d.switchAgent("mallory", "")
	home := filepath.Join(d.cfg.Dir, "agents", d.agent.UID)
	d.shell("echo own > own") // creates a run that later runs can attack
	exits, err := filepath.Glob(filepath.Join(home, "runs", "*", "exit.json"))
	require.NoError(t, err)
	require.NotEmpty(t, exits)
	denied := []string{
		"cat " + db,
		"echo x >> " + db,
		"cat " + filepath.Join(victim.Location, "secret"),
		"echo x > " + filepath.Join(victim.Location, "planted"),
		"ls " + filepath.Join(d.cfg.Dir, "agents"),
		"echo x >> " + filepath.Join(home, "agent.json"),
		"rm " + filepath.Join(home, "runs", "*", "exit.json"),
		"echo x >> $FLEET_RUN_DIR/../output",
		"echo x >> $FLEET_RUN_DIR/../claim",
		"cat $FLEET_RUN_DIR/../../../agent.json",
		"cat $FLEET_RUN_DIR/../model.json",
		"cat /proc/$PPID/fd/0",
		"cat /proc/$PPID/environ",
		`echo '{"outcome":{"Status":"completed"}}' >> /proc/$PPID/fd/1`,
		"cat $HOME/../../../../fleet.db",
	}
	for i, result := range d.shell(denied...) {
		require.Regexp(t, "(?i)denied|read-only|no such file|nonexistent", result, denied[i])
	}
	require.Equal(t, []string{"0"}, trimmed(d.shell("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c _API_KEY; true")))
	for _, exit := range exits {
		require.FileExists(t, exit)
	}
	require.FileExists(t, filepath.Join(victim.Location, "secret"))
	require.NoFileExists(t, filepath.Join(victim.Location, "planted"))
	text, err := os.ReadFile(db)
	require.NoError(t, err)
	require.Equal(t, "rows", string(text))
}

func trimmed(all []string) []string {
	for i, s := range all {
		all[i] = strings.TrimSpace(s)
	}
	return all
}

// TestKillReportsUsage kills a run in the middle of an answer, and checks that the outcome has the usage.
func TestKillReportsUsage(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{}, nil)
	r := d.startTask("model: forever \"hm\\n\"")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := d.place.Connect(d.agent).Follow(ctx, r, "", func(fleet.Output) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, d.place.Connect(d.agent).Interrupt(t.Context(), r, true))
	_, o := d.waitForEnd(r)
	require.Equal(t, fleet.TaskStopped, o.Status)
	require.Positive(t, o.Usage.InputTokens)
	require.Equal(t, 1, o.Turns)
}

// runDir returns the directory of the run.
func (f *fixture) runDir(r fleet.Run) string {
	return filepath.Join(f.cfg.Dir, "agents", f.agent.UID, "runs", r.TaskID)
}

// supervisorPID returns the pid of the run's supervisor.
func (f *fixture) supervisorPID(r fleet.Run) int {
	f.t.Helper()
	var claim struct {
		Shim struct {
			PID int `json:"pid"`
		} `json:"shim"`
	}
	text, err := os.ReadFile(filepath.Join(f.runDir(r), "claim"))
	require.NoError(f.t, err)
	require.NoError(f.t, json.Unmarshal(text, &claim))
	return claim.Shim.PID
}

// TestKilledSupervisor kills the supervisor of a run that is waiting for an answer. The provider will charge for this answer,
// so the run must receive it and report its cost before the run ends.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell a process that its parent has ended")
	}
	d := newFixture(t, fleet.AgentConfig{}, func(c *local.Config) {
		c.Sandbox = sandbox.None // with a pid namespace, the kernel kills all processes of the run together with the supervisor
		c.StopGrace = waittest.Limit
	})
	r := d.startTask("model: hang here")
	<-d.model.Gate("here").Arrived()
	require.NoError(t, syscall.Kill(d.supervisorPID(r), syscall.SIGKILL))
	ended := make(chan fleet.Outcome)
	go func() {
		_, o := d.waitForEnd(r)
		ended <- o
	}()
	waittest.Until(t, "the program does not signal that it has noticed the end of its supervisor", func() bool {
		_, err := os.Stat(filepath.Join(d.runDir(r), "lost"))
		return err == nil
	})
	select {
	case o := <-ended:
		t.Fatal("the run has ended before its request", o)
	case <-d.model.Gate("here").Left():
		t.Fatal("the run has broken off its request")
	default:
	}
	d.model.Gate("here").Open()
	o := <-ended
	requireFailed(t, o, "the process that supervised the run was killed")
	require.Equal(t, fleet.CodeRunnerLost, o.ReasonCode)
	require.EqualValues(t, model.OutputTokens, o.Usage.OutputTokens)
	require.Equal(t, 1, o.Turns)
}

// TestProcessSecrets checks that the environment of a run has only the secrets that the agent needs, and that the command line
// of the run has none.
func TestProcessSecrets(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc, and Fleet finds descendants of a run only on Linux")
	}
	secrets := map[string]string{
		"ANTHROPIC_API_KEY": stubKey, "OPENAI_API_KEY": "sk-other-1", "DATABASE_URL": "db-secret-1", "FLEET_TOKEN": "fleet-secret-1", "NAMED": "named-secret-1",
	}
	certificates := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(certificates, []byte("trusted"), 0o600))
	secrets["SSL_CERT_FILE"] = certificates
	d := newFixture(t, fleet.AgentConfig{Document: strings.Replace(shellDoc, "{type: shell}", "{type: shell, env: {GIVEN: 'x-${NAMED}'}}", 1)}, func(c *local.Config) {
		c.Environ = environment()
		for name, value := range secrets {
			c.Environ = append(c.Environ, name+"="+value)
		}
	})
	r := d.startTask("model: hang here")
	<-d.model.Gate("here").Arrived()
	runDir, supervisor := d.runDir(r), d.supervisorPID(r)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", supervisor))
	require.NoError(t, err)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", supervisor))
	require.NoError(t, err)
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", strings.TrimSpace(string(children))))
	require.NoError(t, err)
	require.Contains(t, string(environ), "ANTHROPIC_API_KEY="+stubKey)
	require.Contains(t, string(environ), "NAMED=named-secret-1")
	for _, name := range []string{"OPENAI_API_KEY", "DATABASE_URL", "FLEET_TOKEN"} {
		require.NotContains(t, string(environ), secrets[name])
	}
	for _, secret := range secrets {
		require.NotContains(t, string(cmdline), secret)
	}
	d.model.Gate("here").Open()
	_, o := d.waitForEnd(r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.NoFileExists(t, filepath.Join(runDir, "model.json"), "the file may have headers of tools, so it must be removed")
	require.Equal(t, []string{"x-[hidden]", "trusted"}, trimmed(d.shell("echo $GIVEN$ANTHROPIC_API_KEY", "cat "+certificates)))
}

// TestUnconfinedReason checks that there is a reason only for agents that run programs without a sandbox.
func TestUnconfinedReason(t *testing.T) {
	t.Parallel()
	agents := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(agents, "shell.yaml"), []byte(shellDoc), 0o600))
	open := func(c *local.Config) {
		c.Sandbox = sandbox.None
		c.Models.Catalog = definition.NewCatalog(definition.CatalogConfig{AgentsDir: agents})
	}
	d := newFixture(t, fleet.AgentConfig{Document: shellDoc}, open)
	require.Contains(t, d.place.UnconfinedReason(d.agent), "sandbox: none")
	require.Contains(t, d.place.UnconfinedReason(fleet.Agent{UID: "new", Config: d.agent.Config}), "sandbox: none", "an agent that does not exist yet must be reported too")
	require.Contains(t, d.place.UnconfinedReason(fleet.Agent{UID: "new", Project: "shell"}), "sandbox: none", "an agent of a project must be reported too")
	require.Empty(t, d.place.UnconfinedReason(fleet.Agent{UID: "new", Project: "none"}))
	for _, document := range []string{filesDoc, ""} {
		d = newFixture(t, fleet.AgentConfig{Document: document}, open)
		require.Empty(t, d.place.UnconfinedReason(d.agent), "an agent that runs no programs must not be reported")
	}
	if sandbox.Available() == nil {
		d = newFixture(t, fleet.AgentConfig{Document: shellDoc}, nil)
		require.Empty(t, d.place.UnconfinedReason(d.agent))
	}
}

// TestSkills checks that an agent finds the skills of the user and of its directory.
func TestSkills(t *testing.T) {
	t.Parallel()
	user := t.TempDir()
	skill := func(dir, name, does string) {
		dir = filepath.Join(dir, ".claude", "skills", name)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: "+name+"\ndescription: "+does+"\n---\nDo it well.\n"), 0o600))
	}
	d := newFixture(t, fleet.AgentConfig{Document: strings.NewReplacer("instruction:", "skills: true\n    instruction:", "{type: shell}", "{type: shell}, {type: filesystem}").Replace(shellDoc)}, func(c *local.Config) {
		c.Environ = environment("HOME=" + user)
	})
	skill(user, "rhyme", "Makes a rhyme.")
	skill(d.agent.Location, "count", "Counts ducks.")
	require.NoError(t, os.WriteFile(filepath.Join(user, "secret"), []byte("mine"), 0o600))
	results := d.shell("cat "+filepath.Join(user, ".claude/skills/rhyme/SKILL.md"), "cat "+filepath.Join(user, "secret"))
	require.Contains(t, d.model.Requests()[0].System, "Makes a rhyme.")
	require.Contains(t, d.model.Requests()[0].System, "Counts ducks.")
	require.Contains(t, results[0], "Do it well.")
	if sandbox.Available() == nil {
		require.Regexp(t, "(?i)denied|read-only|no such", results[1])
	}
}
