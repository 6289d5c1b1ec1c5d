package local_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/waittest"
)

// TestShell checks the outcomes of scripts.
func TestShell(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	for _, tc := range []struct {
		name, script, output string
		want                 fleet.Outcome
	}{
		{"the last line is the summary", "echo one; echo; echo ' two '; echo", "one\n\n two \n\n", fleet.Outcome{Summary: "two", Payload: []byte("one\n\n two \n\n")}},
		{"one line is a payload too", "echo one", "one\n", fleet.Outcome{Summary: "one", Payload: []byte("one\n")}},
		{"no output", "true", "", fleet.Outcome{}},
		{"no newline at the end", "printf one", "one", fleet.Outcome{Summary: "one", Payload: []byte("one")}},
		{"it ends at the first failure", "echo one; false; echo two", "one\n", fleet.Outcome{Status: fleet.TaskFailed, Reason: "exit code 1: one", Summary: "one", Payload: []byte("one\n"), ExitCode: new(1)}},
		{"errors are output too", "echo one; echo no disk >&2; exit 3", "one\nno disk\n", fleet.Outcome{Status: fleet.TaskFailed, Reason: "exit code 3: no disk", Summary: "no disk", Payload: []byte("one\nno disk\n"), ExitCode: new(3)}},
		{"it kills itself", "echo one; kill -SEGV $$", "one\n", fleet.Outcome{Status: fleet.TaskFailed, Reason: "ended by signal SEGV: one", Summary: "one", Payload: []byte("one\n")}},
		{"another interpreter", "#!/usr/bin/env -S awk -f\nBEGIN { print 6 * 7 }", "42\n", fleet.Outcome{Summary: "42", Payload: []byte("42\n")}},
		{"a summary of its own", `echo noise; echo "all well" >"$FLEET_SUMMARY"`, "noise\n", fleet.Outcome{Summary: "all well", Payload: []byte("noise\n")}},
		{"a payload of its own", `echo done; printf '{"x":1}' >"$FLEET_PAYLOAD"`, "done\n", fleet.Outcome{Summary: "done", Payload: []byte(`{"x":1}`)}},
		{"a payload that would block", `rm -f "$FLEET_PAYLOAD"; mkfifo "$FLEET_PAYLOAD"; echo done`, "done\n", fleet.Outcome{Summary: "done", Payload: []byte("done\n")}},
		{"its input is empty", "cat; echo read", "read\n", fleet.Outcome{Summary: "read", Payload: []byte("read\n")}},
		{"colours and progress", `printf '\033[1;32mgreen\033[0m\n10%%\r50%%\r100%%\n'`, "\x1b[1;32mgreen\x1b[0m\n10%\r50%\r100%\n", fleet.Outcome{Summary: "100%", Payload: []byte("\x1b[1;32mgreen\x1b[0m\n10%\r50%\r100%\n")}},
		{"a payload that is not text", `echo done; printf '\000\377\n\n' >"$FLEET_PAYLOAD"`, "done\n", fleet.Outcome{Summary: "done", Payload: []byte("\x00\xff\n\n")}},
		{"the agent, its specification and its role", `echo $FLEET_AGENT/$FLEET_PROJECT/$FLEET_ROLE $(cat $FLEET_SPEC_FILE) $(grep -c engineer $FLEET_ROLE_FILE) $(grep -c FLEET_AGENT $FLEET_PROMPT_FILE)`, "papi/shell/coder Keep the tests green. 1 1\n", fleet.Outcome{Summary: "papi/shell/coder Keep the tests green. 1 1", Payload: []byte("papi/shell/coder Keep the tests green. 1 1\n")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begun := time.Now()
			output, o := w.runTask(a, tc.script)
			if tc.want.Status == "" {
				tc.want.Status, tc.want.ExitCode = fleet.TaskCompleted, new(0)
			}
			require.Equal(t, tc.output, output)
			require.WithinRange(t, o.EndedAt, begun, time.Now())
			o.EndedAt = time.Time{}
			require.Equal(t, tc.want, o)
		})
	}
}

// TestShellDirectory checks that each agent works in a directory of its own, which its next task finds unchanged.
func TestShellDirectory(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, nil)
	a, other := w.provisionIn("shell"), w.provisionIn("shell")
	require.Equal(t, w.home(a, "work"), w.mustRun(a, "echo hello >file; pwd -P"))
	require.Equal(t, "hello", w.mustRun(a, "cat file"))
	require.Equal(t, "0", w.mustRun(other, "ls -A | wc -l"))
	info, err := os.Stat(w.home(a))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// TestSignals checks that programs start with the default signal handling, like programs in a terminal.
func TestSignals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc to find out which signals are ignored")
	}
	w := newTestPlace(t, nil)
	_, o := w.runTask(w.provisionIn("shell"), "grep -E 'Sig(Ign|Blk)' /proc/self/status; yes | head -1")
	// Signals from 32 on belong to the C library. The parent of this test may have ignored them.
	require.Regexp(t, `^SigBlk:\t0{16}\nSigIgn:\t0{7}[0-9a-f]{1}[08]0{7}\ny\n$`, string(o.Payload))
}

// TestShellMessages checks that a script receives messages while it runs, and that messages to a script that does not read them, to a
// run that has ended and to an unknown run are refused.
func TestShellMessages(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := w.startUntil(a, `printf 'name? '; read -r name <"$FLEET_MESSAGES"; echo "hello $name"; cat "$FLEET_MESSAGES"`, "name? ") // output without a newline is reported too
	require.NoError(t, w.Connect(a).Send(w.ctx, r, "1", "world"))
	w.followUntil(a, r, "hello world")

	// If a program does not read its messages, further messages are refused at some point, and the program continues.
	deaf := w.provisionIn("shell")
	d := w.start(deaf, "echo up; sleep 3600")
	w.followUntil(deaf, d, "up")
	confirmed := d
	confirmed.Confirmed = true
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(w.Connect(deaf).Send(w.ctx, confirmed, "0", "a script does not say that it has read it")))
	requireReason(t, w.Connect(deaf).Send(w.ctx, d, "big", strings.Repeat("x", 1<<20)), fleet.ReasonBackendUnavailable)
	w.interrupt(deaf, d)
	_, o := w.follow(deaf, d)
	require.Equal(t, fleet.TaskStopped, o.Status)

	w.interrupt(a, r)
	_, o = w.follow(a, r)
	require.Equal(t, fleet.TaskStopped, o.Status)
	requireReason(t, w.Connect(a).Send(w.ctx, r, "2", "late"), fleet.ReasonNoRunningTask)
	requireReason(t, w.Connect(a).Send(w.ctx, newRun(""), "3", "never was"), fleet.ReasonNoRunningTask)
}

// TestEnvironment checks that agents get the basic and the configured variables, and no other variables of the server.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=/home/alice", "LC_TIME=C", "https_proxy=http://proxy", "MALFORMED",
			"FLEET_TOKEN=secret", "FLEET_DATABASE_URL=secret", "CODER_SESSION_TOKEN=secret", "AWS_SECRET_ACCESS_KEY=secret",
			"ANTHROPIC_API_KEY=key", "OPENAI_API_KEY=key", "GITHUB_TOKEN=secret", "NPM_TOKEN=given", "SITE_A=given", "SITE_B=given", "SITE=not",
		}
		c.PassEnv = []string{"NPM_TOKEN", "FLEET*"}
		c.Projects = []local.Project{
			{Name: "shell", Env: map[string]string{"MODE": "test", "HOME": "/home/agent"}, PassEnv: []string{"SITE_*"}},
			{Name: "codex", Driver: "command", Command: []string{"env"}},
		}
	})
	env := func(project, script string) map[string]string {
		a := w.provisionIn(project)
		_, o := w.runTask(a, script)
		vars := map[string]string{}
		for v := range strings.SplitSeq(strings.TrimSpace(string(o.Payload)), "\n") {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		require.NotEmpty(t, vars, "%+v", o)
		return vars
	}
	vars := env("shell", "env")
	for name, want := range map[string]string{
		"HOME": "/home/agent", "MODE": "test", "LC_TIME": "C", "https_proxy": "http://proxy", "NPM_TOKEN": "given",
		"SITE_A": "given", "SITE_B": "given", "FLEET_AGENT": "papi", "FLEET_PROJECT": "shell",
	} {
		require.Equal(t, want, vars[name], name)
	}
	taskVariables := 0
	for name, value := range vars {
		require.NotEqual(t, "secret", value, name)
		if strings.HasPrefix(name, "FLEET_") {
			taskVariables++
		}
	}
	require.Equal(t, 11, taskVariables, "variables that describe the task")
	for _, name := range []string{"FLEET_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SITE", "CODER_SESSION_TOKEN", "MALFORMED"} {
		require.NotContains(t, vars, name)
	}
	require.NotContains(t, env("codex", "x"), "ANTHROPIC_API_KEY", "the program env is not an agent CLI, so it must not get keys, whatever the name of the project")

	// No file of the run may have the value of a variable of the server.
	a := w.provisionIn("shell")
	r := w.start(a, "true")
	w.follow(a, r)
	files, err := os.ReadDir(w.runDir(a, r))
	require.NoError(t, err)
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		data := readFile(t, w.runDir(a, r, f.Name()))
		require.NotContains(t, data, "given", f.Name())
	}
}

// TestTimeout checks that a run ends at the time limit of its project.
func TestTimeout(t *testing.T) {
	t.Parallel()
	waittest.WithGrowingLimit(t, 300*time.Millisecond, func(limit time.Duration) (begun bool) {
		w := newTestPlace(t, func(c *local.Config) {
			c.Projects = []local.Project{{Name: "shell", Timeout: limit}}
		})
		_, o := w.runTask(w.provisionIn("shell"), "echo begun; sleep 3600") // the time limit of the task itself is longer
		require.Equal(t, fleet.TaskFailed, o.Status)
		require.Equal(t, fmt.Sprintf("it ran longer than its time limit of %s", limit), o.Reason)
		return o.Summary == "begun"
	})

	// An interrupted program that ignores SIGTERM must end at its limit too. Its run then counts as stopped.
	waittest.WithGrowingLimit(t, 300*time.Millisecond, func(limit time.Duration) (interrupted bool) {
		w := newTestPlace(t, func(c *local.Config) {
			c.Projects = []local.Project{{Name: "shell", Timeout: limit}}
		})
		a := w.provisionIn("shell")
		r := w.start(a, "trap '' TERM; echo begun; while true; do sleep 0.1; done")
		if !w.followPrints(a, r, "begun") {
			return false
		}
		w.interrupt(a, r)
		_, o := w.follow(a, r)
		return o.Status == fleet.TaskStopped
	})
}
