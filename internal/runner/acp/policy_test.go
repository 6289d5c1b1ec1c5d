package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPolicy(t *testing.T) {
	bashCall := func(command string) call {
		input, _ := json.Marshal(map[string]any{"command": command})
		return call{Kind: "execute", Title: "`" + command + "`", RawInput: input}
	}
	patchCall := func(paths ...string) call {
		var content []map[string]string
		for _, p := range paths {
			content = append(content, map[string]string{"type": "diff", "path": p})
		}
		b, _ := json.Marshal(content)
		return call{Kind: "edit", Title: "Edit files", Content: b}
	}
	edit := call{Kind: "edit", Title: "Edit a.go", RawInput: json.RawMessage(`{"file_path":"/w/a.go"}`)}
	mcp := call{Kind: "other", Title: "tracker_search"}
	named := call{Kind: "other", Title: "search"}
	named.Meta.Claude.Tool = "mcp__tracker__search"
	for _, tt := range []struct {
		name               string
		policy             Policy
		call               call
		allowed, undecided bool
	}{
		{name: "an empty policy decides nothing", call: bashCall("ls"), undecided: true},
		{name: "a kind", policy: Policy{Allow: []string{"execute"}}, call: bashCall("ls"), allowed: true},
		{name: "another name of the kind", policy: Policy{Allow: []string{"Bash"}}, call: bashCall("ls"), allowed: true},
		{name: "another kind", policy: Policy{Allow: []string{"Read"}}, call: bashCall("ls"), undecided: true},
		{name: "a pattern", policy: Policy{Allow: []string{"Bash(go test *)"}}, call: bashCall("go test ./..."), allowed: true},
		{name: "a prefix", policy: Policy{Allow: []string{"Bash(go test:*)"}}, call: bashCall("go test ./..."), allowed: true},
		{name: "a pattern that does not fit", policy: Policy{Allow: []string{"Bash(go test *)"}}, call: bashCall("go run ."), undecided: true},
		{name: "one command hides another", policy: Policy{Allow: []string{"Bash(echo *)"}}, call: bashCall("echo a; rm -rf /"), undecided: true},
		{
			name: "a substitution hides a command", policy: Policy{Allow: []string{"Bash(echo *)"}},
			call: bashCall("echo $(rm -rf /)"), undecided: true,
		},
		{
			name: "a second line hides a command", policy: Policy{Allow: []string{"Bash(echo *)"}},
			call: bashCall("echo a\nrm -rf /"), undecided: true,
		},
		{
			name: "output redirected to a file", policy: Policy{Allow: []string{"Bash(echo *)"}},
			call: bashCall("echo a > ~/.bashrc"), undecided: true,
		},
		{name: "denied before allowed", policy: Policy{Allow: []string{"Bash"}, Deny: []string{"Bash(rm *)"}}, call: bashCall("rm x")},
		{name: "denied within a compound", policy: Policy{Allow: []string{"Bash"}, Deny: []string{"Bash(rm *)"}}, call: bashCall("true && rm x")},
		{name: "denied, although the command is only in the title", policy: Policy{Allow: []string{"Bash"}, Deny: []string{"Bash(rm *)"}}, call: call{Kind: "execute", Title: "rm x"}},
		{name: "a list of words", policy: Policy{Allow: []string{"Bash(ls -l)"}}, call: call{Kind: "execute", RawInput: json.RawMessage(`{"command":["/bin/bash","-lc","ls -l"]}`)}, allowed: true},
		{name: "a list of words for a program that is no shell", policy: Policy{Allow: []string{"Bash(ls -l)"}}, call: call{Kind: "execute", RawInput: json.RawMessage(`{"command":["./bash","-c","ls -l"]}`)}, undecided: true},
		{name: "denied for a program that may be a shell", policy: Policy{Allow: []string{"Bash"}, Deny: []string{"Bash(ls *)"}}, call: call{Kind: "execute", RawInput: json.RawMessage(`{"command":["fish","-c","ls -l"]}`)}},
		{name: "a pattern that is not closed", policy: Policy{Allow: []string{"Bash(go test *"}}, call: bashCall("go run ."), undecided: true},
		{name: "a pattern that is closed too early", policy: Policy{Allow: []string{"Bash(go test *) "}}, call: bashCall("go run ."), undecided: true},
		{name: "edits", policy: Policy{Edits: true, dir: "/w"}, call: edit, allowed: true},
		{name: "edits elsewhere", policy: Policy{Edits: true, dir: "/v"}, call: edit, undecided: true},
		{name: "a command is not an edit", policy: Policy{Edits: true}, call: bashCall("ls"), undecided: true},
		{name: "a path", policy: Policy{Allow: []string{"Edit(/w/*)"}}, call: edit, allowed: true},
		{name: "another path", policy: Policy{Allow: []string{"Edit(/v/*)"}}, call: edit, undecided: true},
		{name: "a path that leads elsewhere", policy: Policy{Allow: []string{"Edit(/w/*)"}}, call: call{Kind: "edit", RawInput: json.RawMessage(`{"path":"/w/../etc/passwd"}`)}, undecided: true},
		{name: "files of a diff", policy: Policy{Edits: true, dir: "/w"}, call: patchCall("/w/a", "/w/b"), allowed: true},
		{name: "one file of a diff elsewhere", policy: Policy{Edits: true, dir: "/w"}, call: patchCall("/w/a", "/v/b"), undecided: true},
		{name: "a pattern for all files of a diff", policy: Policy{Allow: []string{"Edit(/w/*)"}}, call: patchCall("/w/a", "/w/b"), allowed: true},
		{name: "a pattern for one file of a diff", policy: Policy{Allow: []string{"Edit(/w/*)"}}, call: patchCall("/w/a", "/v/b"), undecided: true},
		{name: "denied for one file of a diff", policy: Policy{Allow: []string{"Edit"}, Deny: []string{"Edit(/v/*)"}}, call: patchCall("/w/a", "/v/b")},
		{name: "edits of files that are not named", policy: Policy{Edits: true, dir: "/w"}, call: call{Kind: "edit", Title: "Edit files"}, undecided: true},
		{name: "a server by its tool's title", policy: Policy{Allow: []string{"mcp__tracker"}}, call: mcp, allowed: true},
		{name: "another server", policy: Policy{Allow: []string{"mcp__track"}}, call: mcp, undecided: true},
		{name: "a server by its tool's name", policy: Policy{Allow: []string{"mcp__tracker"}}, call: named, allowed: true},
		{name: "another tool of a server", policy: Policy{Allow: []string{"mcp__tracker__delete"}}, call: named, undecided: true},
		{name: "no rule can name the kind other", policy: Policy{Allow: []string{"other"}}, call: mcp, undecided: true},
		{name: "an empty rule", policy: Policy{Allow: []string{""}}, call: call{}, undecided: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			allowed, decided, why := tt.policy.decide(tt.call)
			require.Equal(t, tt.allowed, allowed, why)
			require.Equal(t, !tt.undecided, decided, why)
		})
	}
}

// TestCompoundCommands checks that a compound command is allowed if each of its parts is, and that nothing hides a part.
func TestCompoundCommands(t *testing.T) {
	t.Parallel()
	rules := Rules{Allow: []string{"Bash(echo *)", "Bash(go test:*)", "Bash(true)"}, Deny: []string{"Bash(rm *)"}, Ask: []string{"Bash(echo please*)"}}
	for command, allowed := range map[string]bool{
		"echo a && go test ./...":          true,
		"true; echo a | echo b":            true,
		"true\necho b":                     true,
		"true & echo b":                    true,
		"true || echo b;":                  true,
		`echo "a; b" && true`:              true,
		`echo 'a && curl x' ; true`:        true,
		`echo "a; curl x"`:                 true,
		`echo a\; b; true`:                 true,
		"echo a; curl x":                   false,
		"true; rm x":                       false,
		"true && echo please":              false,
		"echo a; ":                         true,
		"true; echo $(curl x)":             false,
		"true; echo \"$(curl x)\"":         false,
		"true; echo `curl x`":              false,
		"true; echo ${x@P}":                false,
		"true; echo $'a'":                  false,
		"true; echo a > ~/.bashrc":         false,
		"true; echo a >(curl x)":           false,
		"(true; echo a)":                   false,
		"{ true; echo a; }":                false,
		"true; echo \"unclosed":            false,
		"echo it # it's\ncurl x # '":       false,
		"true;\n#'\ncurl x\n#'":            false,
		"PATH=/evil true; echo a":          false,
		"if true; then echo a; fi":         false,
		"true; echo <<E\ncurl x\nE":        false,
		"true;;echo a":                     false, // no shell runs it
		"export A=b; true":                 false,
		"time true":                        false,
		"true; ! curl x":                   false,
		"true; echo a\\\ncurl x":           true, // one command: the line goes on
		"true; echo \\'; curl x; echo \\'": false,
	} {
		input, err := json.Marshal(map[string]string{"command": command})
		require.NoError(t, err)
		got, _, why := rules.Decide("Bash", "", "", input)
		require.Equal(t, allowed, got, "%s: %s", command, why)
	}
	_, _, why := rules.Decide("Bash", "", "", []byte(`{"command":"true; echo a; true"}`))
	require.Equal(t, "allowed by the rule Bash(true) and Bash(echo *)", why)
}

// TestEditsThroughLinks checks that a symbolic link in the directory does not lead an edit out of it.
func TestEditsThroughLinks(t *testing.T) {
	t.Parallel()
	dir, outside := filepath.Join(t.TempDir(), "link to the directory"), t.TempDir()
	real := t.TempDir()
	require.NoError(t, os.Symlink(real, dir))
	for name, target := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "new"), "in": "sub", "loop": "loop"} {
		require.NoError(t, os.Symlink(target, filepath.Join(real, name)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(real, "sub"), 0o700))
	for path, want := range map[string]bool{
		"a.go": true, "sub/new/a.go": true, "in/a.go": true, filepath.Join(dir, "a.go"): true, filepath.Join(real, "a.go"): true,
		"out/a.go": false, "out/new/a.go": false, "dangling": false, "loop": false, "../a.go": false, outside: false,
	} {
		input, err := json.Marshal(map[string]string{"file_path": path})
		require.NoError(t, err)
		allowed, _, _ := Policy{Edits: true, dir: dir}.decide(call{Kind: "edit", RawInput: input})
		require.Equal(t, want, allowed, path)
	}
}
