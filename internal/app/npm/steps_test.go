package npm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

var update = flag.Bool("update", false, "write the steps that the programs take now into the golden files")

// requireSteps compares the steps of the task with those in testdata/npm/steps. The file has one step per line. Text that
// differs between runs is removed or replaced.
func (c *claudeFleet) requireSteps(t *testing.T, task, name string) {
	t.Helper()
	r, err := c.api.ListTaskSteps(t.Context(), &fleetv1.ListTaskStepsRequest{TaskId: task, Limit: proto.Int32(1000)})
	require.NoError(t, err)
	require.Nil(t, r.NextCursor)
	ids := map[string]string{}
	var all bytes.Buffer
	steps := r.GetSteps()
	slices.SortStableFunc(steps, func(a, b *fleetv1.Step) int {
		return cmp.Compare(unorderedKinds[a.GetKind()], unorderedKinds[b.GetKind()])
	})
	for _, s := range steps {
		raw, err := wire.Marshal(s)
		require.NoError(t, err)
		var fields map[string]any
		raw = bytes.ReplaceAll(raw, []byte(c.home), []byte("HOME"))
		for _, change := range runDetails {
			raw = change.pattern.ReplaceAll(raw, []byte(change.replacement))
		}
		require.NoError(t, json.Unmarshal(raw, &fields))
		normalizeStep(fields, ids)
		line, err := json.Marshal(fields)
		require.NoError(t, err)
		all.Write(append(line, '\n'))
	}
	golden := filepath.Join(root, "testdata", "npm", "steps", name+".jsonl")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
		require.NoError(t, os.WriteFile(golden, all.Bytes(), 0o644))
	}
	require.Equal(t, string(read(t, golden)), all.String(), "run the test with -update and read the difference")
}

// runDetails contains patterns for text that differs between runs, each with its replacement in the file.
var runDetails = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`agents/[0-9a-f-]{36}`), "agents/UID"},
	{regexp.MustCompile(`HOME[^ "]*/tasks/\S+?\.output`), "OUTPUT"},
	{regexp.MustCompile(`,"cwd":"[^"]*","description":"[^"]*"\}`), "}"}, // OpenCode reports these fields later if it asks for permission
	{regexp.MustCompile(`ID: \w+`), "ID: ID"},
	{regexp.MustCompile(`\[question [0-9a-f-]+\]`), "[question ID]"},
	{regexp.MustCompile(`(agentId|agent_id): \w+`), "$1: ID"},
}

// unorderedKinds contains the kinds of steps that can come at any time. Such steps are sorted to the end of the file.
var unorderedKinds = map[fleetv1.StepKind]int{fleetv1.StepKind_usage: 1, fleetv1.StepKind_background: 2}

// normalizeStep removes fields that differ between runs, shortens long results, and replaces ids by idA, idB and so on.
func normalizeStep(fields map[string]any, ids map[string]string) {
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			normalizeStep(v, ids)
		case string:
			if name == "result" && len(v) > 100 { // Claude Code adds ids and times at the end
				fields[name] = v[:100]
			}
			if v != "" && (name == "id" || name == "parent_id") {
				if ids[v] == "" {
					ids[v] = "id" + string(rune('A'+len(ids)))
				}
				fields[name] = ids[v]
			}
		}
		if name == "summary" && (fields["tool_result"] != nil || fields["retry"] != nil) || name == "delay_ms" || name == "time" || name == "cursor" || name == "duration_ms" || name == "whole" {
			delete(fields, name)
		}
	}
}

// TestClaudeSteps lets Claude Code use many kinds of tools, and compares the steps that Fleet reports with the golden file.
func TestClaudeSteps(t *testing.T) {
	c := newClaudeFleet(t, role{
		"name": "coder", "model": pricedModel, "allowed_tools": []string{"Write", "Edit", "Read", "Task", "Bash(echo *)", "Bash(sleep *)"}, "disallowed_tools": []string{"Bash(rm *)"},
	})
	c.create(t, "papi", "coder")
	work := c.workDir(t, "papi")
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".claude"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(work, ".claude/settings.json"),
		[]byte(`{"hooks":{"PreToolUse":[{"matcher":"Write","hooks":[{"type":"command","command":"echo about to write"}]}]}}`), 0o600))
	id := c.start(t, "papi", "Do many things.",
		"model: think Where should I begin?",
		`model: tool Bash {"command":"echo one"}`,
		`model: tool Bash {"command":"rm nothing"}`,
		`model: tool Bash {"command":"touch denied.txt"}`,
		`model: tool Write {"file_path":"made.txt","content":"l1\nl2\nl3\n"}`,
		`model: tool Edit {"file_path":"made.txt","old_string":"l2","new_string":"L2"}`,
		`model: tool Read {"file_path":"missing.txt"}`,
		`model: tool Bash {"command":"sleep 0.1; echo later","run_in_background":true}`,
		`model: tool Task {"description":"look","subagent_type":"general-purpose","run_in_background":false,"prompt":"model: tool Bash {\"command\":\"echo inner\"}\nmodel: say Seen"}`,
		"model: later Done",
	)
	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	c.requireSteps(t, id, "claude")
	c.recordOutput(t, id, "claude")
}
