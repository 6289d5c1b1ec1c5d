package local_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/waittest"
)

// TestChecksOfProjects checks that projects and roles have the checks of the configuration, and that an empty check is refused.
func TestChecksOfProjects(t *testing.T) {
	t.Parallel()
	var proj local.Project
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(`
name: webshop
timeout: 2h
checks: [make test]
check_timeout: 5m
roles:
  - name: coder
    checks: [make lint]
    retries: 0
`), &proj, yaml.Strict()))
	require.Equal(t, 2*time.Hour, proj.Timeout)
	w := newTestPlace(t, func(c *local.Config) { c.Projects = []local.Project{proj} })
	projects, err := w.Projects(w.ctx)
	require.NoError(t, err)
	require.Equal(t, fleet.Checks{Commands: []string{"make test"}, Timeout: 5 * time.Minute}, projects[0].Checks)
	roles, err := w.Roles(w.ctx, "webshop")
	require.NoError(t, err)
	require.Equal(t, fleet.Checks{Commands: []string{"make lint"}, Retries: new(0)}, roles[0].Checks)

	proj.Commands = []string{" "}
	_, err = local.New(local.Config{Dir: t.TempDir(), Program: "x", Projects: []local.Project{proj}})
	require.ErrorContains(t, err, "check 1 is empty")
}

// TestCheckIsConfined checks that a check runs with the files and variables of its agent and, if the agent has a sandbox, in that
// sandbox.
func TestCheckIsConfined(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	w.mustRun(a, "echo made >file")
	r := w.start(a, "echo done")
	_, _ = w.follow(a, r)
	secret := w.home(a, "agent.json")
	require.FileExists(t, secret)
	res, err := w.Connect(a).Check(w.ctx, r, fleet.Check{
		ID: "1", Timeout: waittest.Limit,
		Command: `cat file; echo $FLEET_CHECK/$FLEET_AGENT/$FLEET_TASK_ID; (: >>"` + secret + `") && echo WRITTEN; cat "$FLEET_RUN_DIR/../run.json" >/dev/null; (: >>"$FLEET_RUN_DIR/../exit.json") && echo WRITTEN; true`,
	})
	require.NoError(t, err)
	require.Equal(t, fleet.CheckPassed, res.Status)
	require.Contains(t, res.Output, "made\n1/papi/"+r.TaskID+"\n")
	if w.UnconfinedReason(a) == "" {
		require.NotContains(t, res.Output, "WRITTEN")
	}
}

// TestFeedbackOfChecks checks that, after failed checks, a script runs unchanged and can read the results from a file.
func TestFeedbackOfChecks(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := newRun(`cat "$FLEET_FEEDBACK_FILE"`)
	r.Feedback = "$ make test\nno compiler"
	output, o := w.execute(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, r.Feedback, strings.TrimSpace(output))
	_, err := os.Stat(w.runDir(a, r, "feedback.md"))
	require.NoError(t, err)
}
