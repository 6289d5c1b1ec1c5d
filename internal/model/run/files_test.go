//go:build cgo

package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/place/local"
)

const filesDoc = workerDoc + `    add_prompt_files: [AGENTS.md, up.md]
    toolsets: [{type: filesystem}]
permissions: {allow: [write_file, edit_file]}
`

// callTools makes the agent call tools, and returns their results. In calls, each name of a tool is followed by its arguments.
func (f *fixture) callTools(calls ...any) []string {
	f.t.Helper()
	var list []map[string]any
	for i := 0; i < len(calls); i += 2 {
		list = append(list, map[string]any{"name": calls[i], "input": calls[i+1]})
	}
	b, err := json.Marshal(list)
	require.NoError(f.t, err)
	_, o := f.runTask("model: tools " + string(b) + "\nmodel: say ok")
	require.Equal(f.t, "ok", o.Summary, o.Reason)
	results := f.results()
	return results[len(results)-len(list):]
}

// pathArgument returns the arguments of a tool with a single path.
func pathArgument(p string) map[string]any { return map[string]any{"path": p} }

// TestFileToolsCannotEscape checks that the file tools cannot access anything outside the agent's directory.
func TestFileToolsCannotEscape(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret.txt")
	require.NoError(t, os.WriteFile(secret, []byte("classified"), 0o600))
	d := newFixture(t, fleet.AgentConfig{Document: filesDoc}, nil)
	other := newFixture(t, fleet.AgentConfig{}, func(c *local.Config) { c.Dir = filepath.Join(outside, "other") })
	other.runTask("hello")
	work := d.agent.Location
	for name, to := range map[string]string{"file.link": secret, "dir.link": outside, "up.md": secret} {
		require.NoError(t, os.Symlink(to, filepath.Join(work, name)))
	}
	rel, err := filepath.Rel(work, secret)
	require.NoError(t, err)
	ways := []string{secret, rel, "file.link", "dir.link/secret.txt", "/proc/self/environ", "/etc/passwd", filepath.Join(work, "..", "agent.json"), "../conversation.jsonl"}
	for _, w := range ways {
		results := d.callTools("read_file", pathArgument(w), "read_multiple_files", map[string]any{"paths": []string{w}},
			"write_file", map[string]any{"path": w, "content": "overwritten"},
			"edit_file", map[string]any{"path": w, "edits": []any{map[string]any{"oldText": "classified", "newText": "overwritten"}}},
			"list_directory", pathArgument(filepath.Dir(w)), "directory_tree", pathArgument(filepath.Dir(w)),
			"search_files_content", map[string]any{"path": filepath.Dir(w), "query": "classified"})
		for i, r := range results {
			require.NotContains(t, r, "classified", "path %s, call %d", w, i)
			require.NotContains(t, r, "FILE conversation.jsonl", "path %s, call %d", w, i)
			require.NotContains(t, r, "successfully", "path %s, call %d", w, i)
		}
		require.Regexp(t, "outside the working directory|leads out of the working directory", results[0], w)
	}
	b, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "classified", string(b))
	require.NotContains(t, d.model.Requests()[0].System, "classified", "a prompt file that is a link out of the directory must not be read")
}

// TestFileTools checks that the file tools work in the agent's directory.
func TestFileTools(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Document: filesDoc}, nil)
	work := d.agent.Location
	put := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o600))
	}
	put("AGENTS.md", "Indent with tabs.")
	put(".gitignore", "# built\n/build/\n*.log\n")
	put("sub/.gitignore", "!kept.log\n")
	put("build/out.txt", "needle")
	put("sub/a.log", "needle")
	put("sub/kept.log", "needle")
	put("sub/code.go", "package a\n\nvar needle = `"+strings.Repeat("long ", 50)+"`\n")
	put(".git/config", "[core]\n")
	require.NoError(t, os.Symlink(".git", filepath.Join(work, "hidden")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(work, "fifo"), 0o600))

	results := d.callTools(
		"write_file", map[string]any{"path": "new/dir/f.txt", "content": "one two"},
		"edit_file", map[string]any{"path": filepath.Join(work, "new/dir/f.txt"), "edits": []any{map[string]any{"oldText": "two", "newText": "three"}}},
		"read_file", pathArgument("new/dir/f.txt"),
		"read_multiple_files", map[string]any{"paths": []string{"new/dir/f.txt", "none"}, "json": true},
		"list_directory", pathArgument("."),
		"directory_tree", pathArgument("sub"),
		"search_files_content", map[string]any{"path": ".", "query": "needle"},
		"search_files_content", map[string]any{"path": "sub", "query": "^var ne+dle", "is_regex": true, "excludePatterns": []string{"kept.log"}},
		"read_file", pathArgument("fifo"),
		"write_file", map[string]any{"path": "fifo", "content": "x"},
		"write_file", map[string]any{"path": ".git/config", "content": "[core]\nfsmonitor = evil\n"},
		"write_file", map[string]any{"path": "hidden/config", "content": "[core]\nfsmonitor = evil\n"},
		"edit_file", map[string]any{"path": "new/dir/f.txt", "edits": []any{map[string]any{"oldText": "four", "newText": "x"}}},
	)
	require.Contains(t, results[0], "successfully")
	require.Contains(t, results[1], "successfully")
	require.Equal(t, "one three", results[2])
	require.JSONEq(t, `[{"path":"new/dir/f.txt","content":"one three"},{"path":"none","content":"none: not found"}]`, results[3])
	require.Equal(t, "FILE .gitignore\nFILE AGENTS.md\nFILE fifo\nFILE hidden\nDIR  new\nDIR  sub", results[4])
	require.JSONEq(t, `{"name":"sub","type":"directory","children":[{"name":".gitignore","type":"file"},{"name":"code.go","type":"file"},{"name":"kept.log","type":"file"}]}`, results[5])
	require.Regexp(t, `^sub/code.go:3:5: var needle = .{0,40}\nsub/kept.log:1:1: needle$`, results[6])
	require.Contains(t, results[7], "sub/code.go:3:1: ")
	require.NotContains(t, results[7], "kept.log")
	require.Contains(t, results[8], "not a regular file")
	require.Regexp(t, "no such device|not a regular file", results[9])
	require.Contains(t, results[10], "belongs to git")
	require.Contains(t, results[11], "belongs to git")
	require.Contains(t, results[12], "old text not found")
	require.Contains(t, d.model.Requests()[0].System, "Indent with tabs.")
}

// TestPrograms checks that a server with NoPrograms refuses definitions that run programs, in the catalog and in runs
// of existing agents.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]string{
		"shell":     "toolsets: [{type: shell}]",
		"script":    "toolsets: [{type: script, shell: {greet: {cmd: echo, description: Greets.}}}]",
		"lsp":       "toolsets: [{type: lsp, command: gopls}]",
		"mcp":       "toolsets: [{type: mcp, command: npx}]",
		"ref":       "toolsets: [{type: mcp, ref: 'docker:duckduckgo'}]",
		"post_edit": "toolsets: [{type: filesystem, post_edit: [{path: '*.go', cmd: gofmt}]}]",
		"hooks":     "hooks: {session_start: [{type: command, command: env}]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := fmt.Sprintf("models:\n  stub: {provider: anthropic, model: stub-large, base_url: \"MODEL\"}\nagents:\n  root:\n    model: stub\n    instruction: Work.\n    %s\n", field)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(doc), 0o600))
			for _, noPrograms := range []bool{false, true} {
				all, err := definition.NewCatalog(definition.CatalogConfig{AgentsDir: dir, NoPrograms: noPrograms}).Files(t.Context())
				require.NoError(t, err)
				require.Equal(t, noPrograms, strings.Contains(all[0].Problem, "cagent.programs"), all[0].Problem)
			}
			d := newFixture(t, fleet.AgentConfig{Document: doc}, func(c *local.Config) { c.Models.Settings.NoPrograms = true })
			_, o := d.runTask("hello")
			requireFailed(t, o, "cagent.programs: true")
			require.Empty(t, d.model.Requests())
		})
	}
}
